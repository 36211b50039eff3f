"""A golden plan: a person writes above the cut, ``pytest --update-plans`` writes below it.

    -- A click counts for a view when it comes at most ten minutes after it.
    -- catalog: ads
    -- must use: NeighbourBandJoin
    SELECT v.page, c.ad
    FROM clicks c JOIN views v ON c.ts BETWEEN v.ts AND v.ts + INTERVAL 10 MINUTES
    -- ^ written by hand · v written by `pytest --update-plans` --
    == logical ==
    …

Above the SQL stand comment lines.  ``-- key: value``, with a key of at most three words in small letters, is a header
line; every other comment is prose.  A key that does not exist is an error, and so is prose that is nearly a key.

    catalog        name of a catalog, found as catalogs/NAME.toml or NAME.toml beside the case or in a folder above it;
                   or a path to a .toml, from the case's folder
    must use       operators of the plan, or rules that fired; separated by commas
    must not use   the same, absent
    refused        words from the reason of a rule that held back
    same plan as   name of another case, whose plan is equal
    option         name = value, an option of the optimizer
    error          words from the error of a statement that nobody can run

Places in reasons count from the first line of the SQL, so that a new comment above it changes no plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import NoReturn

from golden_plans.catalog import CatalogFile
from golden_plans.catalog_file import read_catalog
from optimizer.options import Options
from optimizer.plan import Plan
from optimizer.planning import plan_sql
from planner.errors import GoldenError, OptionError, RuleError, one_of
from planner.explain import show_error, show_refusals, show_steps, show_tree, show_warnings
from planner.logical import Logical
from planner.physical.base import Physical
from planner.tree import Node
from rules.batches import RULES

CUT = "-- ^ written by hand · v written by `pytest --update-plans` --"
KEYS = ("catalog", "must use", "must not use", "refused", "same plan as", "option", "error")
AS_WRITTEN = "Spark runs the statement as written"
NOTHING_RUNS = "an error: nothing runs"
_ONCE = ("catalog", "same plan as")
_CONTEXT = 3


@dataclass(frozen=True)
class Header:
    """One ``-- key: value`` line."""

    line: int
    key: str
    value: str


@dataclass(frozen=True)
class Case:
    """A ``.plan`` file: ``above`` is its text with the cut, ``approved`` what stands below, None where nothing does."""

    path: Path
    headers: tuple[Header, ...]
    sql: str
    above: str
    approved: str | None

    def values(self, key: str) -> tuple[Header, ...]:
        """The header lines with this key."""
        return tuple(h for h in self.headers if h.key == key)

    @property
    def name(self) -> str:
        """The case by folder and name: ``band/click_after_view``."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def sections(self) -> dict[str, str]:
        """The approved text, section by section."""
        parts = re.split(r"^== (\w+) ==$", self.approved or "", flags=re.MULTILINE)
        return {title: text.strip("\n") for title, text in zip(parts[1::2], parts[2::2], strict=True)}

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise a ``GoldenError`` about this file."""
        where = f"{self.path.name}, line {line}" if line else self.path.name
        raise GoldenError(f"{where}: {message}")


def read_case(path: Path) -> Case:
    """Read a ``.plan`` file.  Raises ``GoldenError`` for one that is not well formed."""
    path = path.absolute()
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(f"{path.name}: cannot be read: {error}") from error
    case = Case(path, (), "", text, None)
    lines = text.split("\n")
    plain = [line.rstrip("\r") for line in lines]
    cuts = [n for n, line in enumerate(plain) if line.startswith("-- ^")]
    for n in cuts:
        if plain[n] != CUT:
            case.fail(f"the cut is written {CUT}", n + 1)
    if len(cuts) > 1:
        case.fail("a second cut", cuts[1] + 1)
    end = cuts[0] if cuts else len(lines)
    first = next((n for n in range(end) if plain[n].strip() and not plain[n].startswith("--")), end)
    sql = "\n".join(plain[first:end]).rstrip()
    if not sql:
        case.fail("there is no SQL above the cut")
    headers = tuple(_headers(case, plain[:first]))
    for n in range(first, end):
        head, colon, _ = plain[n].removeprefix("--").partition(":")
        if plain[n].startswith("--") and colon and head.strip() in KEYS:
            case.fail(f"`-- {head.strip()}:` belongs above the SQL", n + 1)
    above = "\n".join(lines[: end + 1]) if cuts else text
    approved = "\n".join(plain[end + 1 :]) if cuts else None
    return Case(path, headers, sql, above, approved if approved and approved.strip() else None)


def _headers(case: Case, lines: list[str]) -> Iterator[Header]:
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        text = line.removeprefix("--").strip()
        head, colon, value = (part.strip() for part in text.partition(":"))
        if not (colon and re.fullmatch(r"[a-z]+( [a-z]+){0,2}", head)):
            if near := _near(head, bool(colon)):
                case.fail(f"this is nearly the key {near!r}; write `-- {near}: …`", number)
            continue
        if head not in KEYS:
            case.fail(f"there is no key {head!r}; {one_of(KEYS, head)}; prose begins with a capital letter", number)
        if not value:
            case.fail(f"`-- {head}:` needs a value", number)
        if head in seen and head in _ONCE:
            case.fail(f"a second `-- {head}:`", number)
        seen.add(head)
        yield Header(number, head, value)


def _near(head: str, colon: bool) -> str:
    """The key that a comment was probably meant to be."""
    words = re.sub(r"[^a-z]+", " ", head.lower()).strip()
    if colon:
        return next(iter(get_close_matches(words, KEYS, n=1, cutoff=0.8)), "")
    return next((k for k in KEYS if " " in k and f"{words} ".startswith(f"{k} ")), "")


def catalog_of(case: Case) -> CatalogFile:
    """The catalog that a case names.  Raises ``GoldenError`` when there is none, ``CatalogError`` for a broken one."""
    folders = list(case.path.parents)
    beside = [p for p in folders[0].glob("*.toml") if p.stem != "pyproject"]
    possible = {p.stem for p in [*beside, *(p for f in folders for p in f.glob("catalogs/*.toml"))]}
    header = next(iter(case.values("catalog")), None)
    if header is None:
        case.fail(f"there is no `-- catalog:` line; {one_of(possible, '')}")
    name = header.value
    if name.endswith(".toml"):
        tries = [case.path.parent / name]
    else:
        tries = [f / inside / f"{name}.toml" for f in folders for inside in ("catalogs", "")]
    found = next((p for p in tries if p.is_file()), None)
    if found is None:
        case.fail(f"there is no catalog {name!r}; {one_of(possible, name)}", header.line)
    return read_catalog(found)


def plan_case(case: Case) -> Plan:
    """Plan the SQL of a case.  Raises ``GoldenError`` for a wrong option or a rule that broke a promise."""
    given: dict[str, str] = {}
    options = Options(strict=True)
    for header in case.values("option"):
        name, equals, value = (part.strip() for part in header.value.partition("="))
        if not equals or name in given:
            case.fail(f"an option is written `-- option: name = value`, once, not {header.value!r}", header.line)
        given[name] = value
        try:
            options = Options.from_mapping({name: value}, options)
        except OptionError as error:
            case.fail(str(error), header.line)
    try:
        return plan_sql(case.sql, catalog_of(case), options)
    except RuleError as error:
        case.fail(f"a rule broke a promise: {error}")


def show(plan: Plan) -> str:
    """What stands below the cut for a plan."""
    logical = show_tree(plan.logical) if plan.logical else "not carried"
    said = (
        show_steps(plan.trace.steps),
        show_error(plan.error),
        show_refusals(plan.declined),
        show_warnings(plan.warnings),
    )
    rewrites = "\n".join(s for s in said if s)
    return f"== logical ==\n{logical}\n\n== rewrites ==\n{rewrites or 'no rule fired'}\n\n== plan ==\n{final(plan)}\n"


def final(plan: Plan) -> str:
    """The plan that runs, as its section shows it."""
    if plan.error:
        return NOTHING_RUNS
    return show_tree(plan.physical) if plan.rewritten and plan.physical else AS_WRITTEN


def check_claims(case: Case, plan: Plan) -> None:
    """Raise ``GoldenError`` for a claim that the plan breaks, or that nobody can judge."""
    runs: Node | None = plan.physical if plan.rewritten else plan.logical
    used = tuple(dict.fromkeys([*(n.label for n in runs.walk()), *plan.rules])) if runs else ()  # type: ignore[attr-defined]
    errors = case.values("error")
    if plan.error and not errors:
        case.fail(f"it is an error: {plan.error}; if it is meant, write `-- error: …` with words of it")
    for header in case.headers:
        if header.key == "error":
            if not plan.error or header.value not in plan.error.reason:
                _broken(case, header, f"it says: {plan.error}" if plan.error else "it is no error", plan)
        elif header.key in ("must use", "must not use"):
            for name in _names(case, header):
                if (name in used) != (header.key == "must use"):
                    _broken(case, header, f"it uses {', '.join(used) or 'nothing: ' + AS_WRITTEN}", plan)
        elif header.key == "refused" and not any(header.value in d.reason for d in plan.declined):
            _broken(case, header, "no reason below holds these words" if plan.declined else "no rule held back", plan)
        elif header.key == "same plan as":
            _check_equal(case, header, plan)


def _names(case: Case, header: Header) -> list[str]:
    known = {*labels(Logical), *labels(Physical), *(r.name for r in RULES)}
    names = [n.strip() for n in header.value.split(",")]
    for name in names:
        if name not in known:
            case.fail(f"there is no operator or rule {name!r}; {one_of(known, name)}", header.line)
    return names


def labels(base: type[Node]) -> Iterator[str]:
    """The operators of a family of nodes, as plans call them."""
    below: type[Node]
    for below in base.__subclasses__():
        if isinstance(label := getattr(below, "label", ""), str) and label:
            yield label
        yield from labels(below)


def _check_equal(case: Case, header: Header, plan: Plan) -> None:
    other = case.path.parent / f"{header.value.removesuffix('.plan')}.plan"
    if not other.is_file():
        names = [p.stem for p in case.path.parent.glob("*.plan") if p != case.path]
        case.fail(f"there is no case {header.value!r}; {one_of(names, header.value)}", header.line)
    if other.resolve() == case.path.resolve():
        case.fail("a case always has the same plan as itself", header.line)
    theirs = final(plan_case(read_case(other)))
    if not plan.rewritten and theirs == AS_WRITTEN:
        case.fail(f"an equation that says nothing: {AS_WRITTEN}, here and there", header.line)
    if theirs != final(plan):
        said = "\n".join(_difference(f"== plan ==\n{theirs}", f"== plan ==\n{final(plan)}"))
        _broken(case, header, f"the plans differ\n--- {other.stem}\n+++ {case.path.stem}\n{said}\n", plan)


def _broken(case: Case, header: Header, why: str, plan: Plan) -> NoReturn:
    reasons = show_refusals(plan.declined)
    message = f"the plan breaks a claim\n-- {header.key}: {header.value}\n{why}"
    case.fail(f"{message}\n{reasons}".rstrip(), header.line)


def check(case: Case, shown_path: str = "") -> None:
    """Raise ``GoldenError`` unless the claims hold and the plan is the approved one."""
    plan = plan_case(case)
    check_claims(case, plan)
    now = show(plan)
    if now == case.approved:
        return
    head = "no plan is approved yet" if case.approved is None else "the plan has changed"
    lines = _difference(case.approved or "", now)
    mend = f"If this is what you meant:  pytest --update-plans {shown_path or case.path.name}"
    raise GoldenError("\n".join([f"{case.path.name}: {head}", "--- approved", "+++ now", *lines, "", mend]))


def update(case: Case) -> bool:
    """Write the plan below the cut, unless it breaks a claim; returns whether the file changed.

    Raises ``GoldenError`` for a broken claim, and leaves the file alone.
    """
    plan = plan_case(case)
    check_claims(case, plan)
    now = show(plan)
    if now == case.approved:
        return False
    newline = "\r\n" if "\r\n" in case.above else "\n"
    above = case.above if case.above.endswith("\n") else case.above + newline
    if CUT not in above:
        above = above.rstrip() + newline + CUT + newline
    case.path.write_bytes((above + now.replace("\n", newline)).encode())
    return True


def _difference(old: str, new: str) -> list[str]:
    """A unified diff whose hunks are headed by the section they stand in, without line numbers."""
    a, b = old.splitlines(), new.splitlines()
    lines = []
    for group in SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(_CONTEXT):
        start = group[0][3]
        titles = [n for n, line in enumerate(b[: start + 1]) if line.startswith("== ")]
        if titles and titles[-1] < start:
            lines += [f" {b[titles[-1]]}", *([" …"] if titles[-1] < start - 1 else [])]
        elif lines:
            lines.append(" …")
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines += [f" {line}".rstrip() for line in a[i:j]]
            else:
                lines += [f"-{line}" for line in a[i:j]] + [f"+{line}" for line in b[k:m]]
    return lines
