"""A golden plan: a person writes the part above the cut, ``pytest --update-plans`` writes the part below it.

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
    refused        words from the reason of a rule that declined
    same plan as   name of another case, whose plan is equal
    option         name = value, an option of the optimizer
    error          words from the error of a statement that nobody can run

Places in reasons count from the first line of the SQL, so that a new comment above it changes no plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from dovetail.planner.errors import GoldenError, one_of

CUT = "-- ^ written by hand · v written by `pytest --update-plans` --"
KEYS = ("catalog", "must use", "must not use", "refused", "same plan as", "option", "error")
_ONCE = ("catalog", "same plan as")


@dataclass(frozen=True)
class Header:
    """One ``-- key: value`` line."""

    line: int
    key: str
    value: str


@dataclass(frozen=True)
class Case:
    """A ``.plan`` file: ``above`` is its text down to the cut, ``approved`` the text below, None if there is none."""

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
        """Folder and name of the case: ``band/click_after_view``."""
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
    """The key that a comment probably misspells."""
    words = re.sub(r"[^a-z]+", " ", head.lower()).strip()
    if colon:
        return next(iter(get_close_matches(words, KEYS, n=1, cutoff=0.8)), "")
    return next((k for k in KEYS if " " in k and f"{words} ".startswith(f"{k} ")), "")
