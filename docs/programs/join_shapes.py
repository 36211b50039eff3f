"""The table of docs/coverage.md of the conditions that are no equality, by kind of join: what rewrites each of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.offline_catalog.read_catalog import read_catalog

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "golden_plans" / "catalogs" / "shapes.toml"
KINDS = ("inner", "left", "right", "full", "semi", "anti")
SHAPES = {
    "OR of two equalities": "a.x = b.x OR a.y = b.y",
    "OR of three, two with a guard": "a.kind = 'x' AND a.x = b.x OR a.kind = 'y' AND a.y = b.y OR a.s = b.s",
    "OR beside an equality": "a.k = b.k AND (a.x = b.x OR a.y = b.y)",
    "element of an array": "array_contains(b.items, a.x)",
    "two arrays": "arrays_overlap(a.items, b.items)",
    "element by a lambda": "exists(b.items, e -> e = a.x)",
    "key of a map": "map_contains_key(b.labels, a.s)",
    "IN over columns": "a.x IN (b.x, b.y)",
    "NULL means any": "a.x = b.x OR b.x IS NULL",
    "NULL means any, two columns": "(a.x = b.x OR b.x IS NULL) AND (a.y = b.y OR b.y IS NULL)",
    "NULL equals NULL": "a.x = b.x OR (a.x IS NULL AND b.x IS NULL)",
    "test of NOT IN": "(a.x = b.x) IS NOT FALSE",
    "band of constant width": "abs(a.x - b.x) <= 5",
    "point in an interval": "a.x BETWEEN b.lo AND b.hi",
    "interval with an open end": "a.x >= b.lo AND (a.x < b.hi OR b.hi IS NULL)",
    "overlap of intervals": "a.lo <= b.hi AND b.lo <= a.hi",
    "dates kept as texts": "a.day BETWEEN b.valid_from AND b.valid_to",
    "box": "abs(a.x - b.x) <= 5 AND abs(a.y - b.y) <= 5",
    "band and equality": "a.k = b.k AND a.x BETWEEN b.lo AND b.hi",
    "band and OR of equalities": "a.x BETWEEN b.lo AND b.hi AND (a.k = b.k OR a.s = b.s)",
    "OR of two bands": "a.x BETWEEN b.lo AND b.hi OR a.y BETWEEN b.lo AND b.hi",
    "prefix": "startswith(a.path, b.prefix)",
    "suffix": "endswith(a.path, b.prefix)",
    "text inside a text": "contains(a.path, b.prefix)",
    "branches of a CASE": "CASE WHEN a.k = 1 THEN a.x = b.x ELSE a.y = b.y END",
    "distance": "sqrt(pow(a.x - b.x, 2) + pow(a.y - b.y, 2)) < 5",
    "great circle": "6371 * acos(sin(radians(a.lat)) * sin(radians(b.lat)) + cos(radians(a.lat)) * cos(radians(b.lat)) "
    "* cos(radians(a.lon - b.lon))) < 5",
}
_HEADING = "### Shapes and kinds of join"
_TEXT = f"""{_HEADING}

Each cell has the operator that runs the join, [KeyJoin](key-joins.md) or one of
[band joins](design-notes/band-joins.md), or the number of the reason why Spark does. `semi` returns the rows of `a`
that have a match and `anti` the others, as `EXISTS` and `NOT EXISTS` do, which become these joins.
`python -m docs.programs` writes this table from plans with `force`, so that costs do not count.
"""


def statement(shape: str, kind: str) -> str:
    """The join of a shape and a kind."""
    other, keyword = ("a", f"LEFT {kind}") if kind in ("semi", "anti") else ("b", kind)
    return f"SELECT a.id, {other}.k FROM a {keyword.upper()} JOIN b ON {SHAPES[shape]}"


@cache
def plans() -> dict[tuple[str, str], Plan]:
    """The plan of each cell."""
    catalog, options = read_catalog(CATALOG), Options(force=True, strict=True)
    return {(shape, kind): plan_sql(statement(shape, kind), catalog, options) for shape in SHAPES for kind in KINDS}


def coverage() -> str:
    """Return docs/coverage.md with the table of today."""
    reasons: list[str] = []
    rows = [f"| shape | condition | {' | '.join(KINDS)} |", "| --- " * (len(KINDS) + 2) + "|"]
    for shape, condition in SHAPES.items():
        cells = (_cell(plans()[shape, kind], condition, reasons) for kind in KINDS)
        rows.append(f"| {shape} | `{condition}` | {' | '.join(cells)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    section = "\n".join([_TEXT, *rows, "", *notes, ""])
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    return re.sub(rf"(?s){_HEADING}\n.*?(?=\n## )", lambda _: section, page)


def _cell(plan: Plan, condition: str, reasons: list[str]) -> str:
    """The operator of a plan, or the number of the reason, which is added to the list."""
    if plan.rewritten and plan.physical:
        return next(node.label for node in plan.physical.walk() if node.label.endswith("Join"))
    reason = plan.declined[-1].reason.removeprefix(f"{condition}: ")
    reason = reason.replace(condition.partition(" < ")[0], "the expression")
    if reason not in reasons:
        reasons.append(reason)
    return f"({reasons.index(reason) + 1})"
