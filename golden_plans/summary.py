"""SUMMARY.txt: one line per golden plan, the first screen for the reviewer of a big change.

    band/click_after_view  NeighbourBandJoin
    refused/one_sided  declined: p.x >= i.lo bounds p.x on one side only, so there is no band; add an upper bound

It is made from the approved text alone, and needs no planning.  A folder of cases has a
summary when it holds a file of that name; ``pytest --update-plans`` keeps it up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dovetail.golden_plans.approval import AS_WRITTEN
from dovetail.golden_plans.case import read_case
from dovetail.planner.errors import GoldenError

NAME = "SUMMARY.txt"
_WIDTH = 120
_CLAUSES = frozenset(  # what SQL has names for, as plans call it; the other operators are Dovetail's
    "Aggregate BandJoin Cte Derived Filter Join LateralView Limit OneRow Parens Project Relation Scan SetOp Sort "
    "Statement Values Verbatim Windows With".split()
)
_NODE = re.compile(r"^(?:[│├└─ ]*─ )?(?:subquery \d+: )?(\w+)(?:  |$)")
_REFUSAL = re.compile(r"^-- \w+ declined: (.*(?:\n--   .*)*)", re.MULTILINE)
_PLACE = re.compile(r" \(line \d+, column \d+\)$")


def summary(folder: Path) -> str:
    """One line for each case below a folder, in order of their paths."""
    names = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.plan"))
    lines = [_short(f"{name}  {outcome(folder / (name + '.plan'))}") for name in names]
    return "".join(f"{line}\n" for line in lines)


def outcome(path: Path) -> str:
    """The operators that Dovetail chose; else why it declined, or the operators of the original plan."""
    try:
        case = read_case(path)
    except GoldenError:
        return "not well formed"
    if case.approved is None:
        return "not approved yet"
    logical, rewrites, plan = (case.sections.get(title, "") for title in ("logical", "rewrites", "plan"))
    if plan != AS_WRITTEN:
        return ", ".join(o for o in _operators(plan) if o not in _CLAUSES)
    if found := _REFUSAL.search(rewrites):
        reason = found[1].replace("\n--  ", "")
        return f"declined: {_PLACE.sub('', reason)}"
    return f"as written: {', '.join(dict.fromkeys(_operators(logical)))}"


def _short(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2].rsplit(' ', 1)[0]} …"


def _operators(tree: str) -> list[str]:
    return [found[1] for line in tree.splitlines() if (found := _NODE.match(line))]


def write_summary(path: Path) -> bool:
    """Write a summary; returns whether it changed."""
    now = summary(path.parent)
    if path.read_text(encoding="utf-8") == now:
        return False
    path.write_text(now, encoding="utf-8")
    return True


def summaries_above(cases: Iterable[Path]) -> list[Path]:
    """The summary files in the folders of these cases and above."""
    folders = {folder for path in cases for folder in path.absolute().parents}
    return sorted(f / NAME for f in folders if (f / NAME).is_file())
