"""Decides from a physical plan whether Dovetail would take a join: ``((x#6L >= lo#16L) AND (x#6L <= hi#17L))``.

The condition of a physical plan is nearly SQL.  Attributes get names that SQL can read, each side of the join is known
by the attributes below it, and the readers of bands and of keys (``dovetail.planner.band``, ``dovetail.planner.keys``)
do the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from dovetail.optimizer.advise.event_log.join_nodes import JoinText
from dovetail.optimizer.advise.event_log.plan_nodes import ATTRIBUTE, PlanNode, attribute_types, attributes
from dovetail.optimizer.advise.event_log.rankings import Extreme, numbers, ranking_by_bound, ranking_by_distance
from dovetail.optimizer.advise.remedies import REMEDIES
from dovetail.planner.band.comparisons import comparisons, is_or_of_comparisons
from dovetail.planner.band.condition import Band, DistanceBand
from dovetail.planner.band.linear import ConditionScope, Side
from dovetail.planner.band.read_bands import OneSided, read_bands
from dovetail.planner.conditions.compared import compared
from dovetail.planner.conditions.normal_form import normal_form
from dovetail.planner.errors import Refused
from dovetail.planner.expr import Scalar, canonical
from dovetail.planner.keys.key_set import KeyScheme
from dovetail.planner.keys.read_keys import looks_like_keys, read_keys
from dovetail.planner.types.schema import SqlType, sql_type
from dovetail.planner.types.typed import infer_type

_HOT_KEY = "One key has most of the rows: look whether it is a default that should match nothing."
_LONGEST = 20_000
# What a physical plan writes otherwise than SQL: the spelling of the plan, and that of SQL.
_SPELLINGS = (
    (r"\blambdafunction\((.*?), lambda (\w+#\d+)L?, false\)", r"\2 -> \1"),
    (r"\blambda (?=\w+#)", ""),
    (r"\barray_contains\(map_keys\(([^()]*)\), ", r"map_contains_key(\1, "),
    (r"(\bsize\(.*), (?:true|false)\) > ", r"\1) > "),
    (r" <=> false\)", " IS FALSE)"),
)

Answer = Literal["yes", "no", "cannot tell"]


@dataclass(frozen=True)
class Verdict:
    """Whether Dovetail would take a join, the rewriting, and the reason."""

    answer: Answer
    rewriting: str
    reason: str


def judge(node: PlanNode, join: JoinText) -> Verdict:
    """Judge a join by its node and the nodes around it."""
    if join.node == "SortMergeAsOfJoin":
        return Verdict("yes", "nearest rows", "It is an as-of join.")
    if not join.condition:
        if join.keys:
            return Verdict("no", "", f"The condition has equalities only. {_HOT_KEY}")
        if found := ranking_by_distance(node):
            return Verdict("yes", "nearest rows", f"{found[0]} is the distance; {found[1]} is above.")
        return Verdict("no", "", "The join has no condition, so every pair is a result.")
    if len(join.condition) > _LONGEST:
        return Verdict("cannot tell", "", f"The condition is longer than {_LONGEST:,} characters.")
    try:
        verdict = _by_condition(node, join)
        is_hot = join.keys and verdict.answer == "no"
        return replace(verdict, reason=f"{verdict.reason} {_HOT_KEY}") if is_hot else verdict
    except Refused as no:
        return Verdict("cannot tell", "", f"The condition cannot be read: {_named(no.reason)}.")
    except RecursionError:
        return Verdict("cannot tell", "", "The condition is nested too deeply.")


def _by_condition(node: PlanNode, join: JoinText) -> Verdict:
    if "subquery#" in join.condition:
        return Verdict("cannot tell", "", "The condition has a subquery; `dovetail explain` reads the statement.")
    if "pythonUDF" in join.condition:
        return Verdict("no", "", "A Python function is compared. Write it as an expression of Spark SQL.")
    names = _Names(node, join.condition)
    condition = Scalar(names.sql(join.condition))
    condition.tree  # noqa: B018  # raises Refused where it is no SQL
    conjuncts = normal_form((condition,))
    bands, refusals = read_bands(conjuncts, names.scope())
    if bands:
        text = ", and ".join(_named(_describe(band)) for band in bands)
        guess = " The columns have to be numbers, dates or times." if names.assumed else ""
        return Verdict("yes", "band join", f"{text}.{guess}")
    keys, no_keys = _read_keys(conjuncts, names.scope())
    if keys:
        guess = " The plan does not show the types of all columns." if names.assumed else ""
        return Verdict("yes", "join by keys", f"{_named(str(keys))} gives the rows of both sides keys.{guess}")
    refusals += no_keys
    unknown = names.unplaced or next((no.reason for no in refusals if no.reason.endswith("is not known")), "")
    if unknown:
        raise Refused(unknown)
    is_semi = join.type in ("LeftSemi", "LeftAnti") and _compares_sides(conjuncts, names.scope())
    return _without_bins(node, conjuncts, refusals, is_semi=is_semi)


def _without_bins(
    node: PlanNode, conjuncts: tuple[Scalar, ...], refusals: tuple[Refused, ...], *, is_semi: bool
) -> Verdict:
    """The verdict on a condition without a band and without keys.

    ``is_semi``: it compares the sides of a join that returns no column of a match.
    """
    one_sided = next((no for no in refusals if isinstance(no, OneSided)), None)
    if one_sided and (ranking := ranking_by_bound(node, _nearest_ends(conjuncts))):
        return Verdict("yes", "nearest rows", f"{_named(one_sided.fact)}; {ranking} is above.")
    if one_sided and is_semi:
        what = f"{_named(one_sided.fact)}, and the join returns no column of a match."
        return Verdict("yes", "least or greatest value", what)
    if refusals:
        return Verdict("no", "", f"{_sentence(_named((one_sided or refusals[0]).reason))}.")
    if any(map(is_or_of_comparisons, conjuncts)):
        return Verdict("no", "", f"The condition is an OR. {REMEDIES['or_condition']}")
    return Verdict("no", "", "The condition does not compare two columns by order, so there is no band.")


def _read_keys(conjuncts: tuple[Scalar, ...], scope: ConditionScope) -> tuple[KeyScheme | None, tuple[Refused, ...]]:
    """The keys of the first conjunct that has some, and why those before it that look like it have none."""
    refusals: tuple[Refused, ...] = ()
    for conjunct in filter(looks_like_keys, conjuncts):
        try:
            if keys := read_keys(conjunct, scope):
                return keys[0], refusals
        except Refused as no:
            refusals += (Refused(f"{conjunct.shown}: {no.reason}"),)
    return None, refusals


def _describe(band: Band) -> str:
    """A band in words: a plan has the names of columns, but not of the relations that they belong to."""
    if not isinstance(band, DistanceBand):
        return str(band)
    low, high = band.axis.human(band.low), band.axis.human(band.high)
    return f"{band.left.text} (left side) minus {band.right.text} (right side) lies between {low} and {high}"


def _compares_sides(conjuncts: tuple[Scalar, ...], scope: ConditionScope) -> bool:
    """Whether a condition is one comparison of a value of either side."""
    found = compared(conjuncts[0]) if len(conjuncts) == 1 else None
    return found is not None and {scope.side(end) for end in found.operands} == {"left", "right"}


def _nearest_ends(conjuncts: tuple[Scalar, ...]) -> dict[int, Extreme]:
    """For each attribute that a comparison bounds on one side, the end that lies nearest to the other side."""
    found: dict[int, Extreme] = {}
    for conjunct in conjuncts:
        for small, large in comparisons(conjunct.tree):
            found |= {_number(column.name): "max" for column in small.find_all(exp.Column)}
            found |= {_number(column.name): "min" for column in large.find_all(exp.Column)}
    return found


class _Names:
    """Names for the attributes of a condition that SQL can read: ``x#6L`` is ``x__6``."""

    def __init__(self, node: PlanNode, condition: str):
        self._sides = [attributes(child) for child in node.children[:2]]
        self._types = attribute_types(node)
        self.numbers = numbers(condition)
        known = [self._types[number] for number in sorted(self.numbers) if number in self._types]
        times = re.search(r"(?i)interval|timestamp|\d\d:\d\d", condition)
        self._assumed = sql_type(known[0] if known else "timestamp" if times else "bigint")
        self.assumed = not self.numbers <= self._types.keys()
        self.unplaced = ""

    def sql(self, condition: str) -> str:
        """A condition with names and literals as SQL has them."""
        for plan, text in _SPELLINGS:
            condition = re.sub(plan, text, condition)
        text = ATTRIBUTE.sub(lambda m: f"{re.sub(r'[^A-Za-z0-9_]', '_', m[1]) or 'c'}__{m[2]}", condition)
        text = re.sub(r"(?<![\w'-])(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)(?![\w'])", r"TIMESTAMP '\1'", text)
        return re.sub(r"(?<![\w'-])(\d{4}-\d\d-\d\d)(?![\w' ]\d|')", r"DATE '\1'", text)

    def scope(self) -> ConditionScope:
        """The scope for the reader of bands.  ANSI mode: no sum of a plan that ran has raised an error."""
        return ConditionScope(self._side, self._type, canonical, True, False)

    def _side(self, tree: exp.Expression) -> Side | Literal["both"] | None:
        sides: set[Side] = set()
        for column in tree.find_all(exp.Column):
            if _is_literal(column):
                continue
            number = _number(column.name)
            left, right = (number in side for side in self._sides)
            if left == right:
                reason = "both sides of the join have" if left else "neither side of the join shows"
                self.unplaced = f"{reason} {column.name}"
                raise Refused(self.unplaced)
            sides.add("left" if left else "right")
        return "both" if len(sides) > 1 else next(iter(sides), None)

    def _type(self, tree: exp.Expression) -> SqlType | None:
        if _is_literal(tree):
            return sql_type("string")
        if isinstance(tree, exp.Column):
            logged = self._types.get(_number(tree.name))
            return sql_type(logged) if logged else self._assumed
        if isinstance(tree, exp.Anonymous):
            self.assumed = True
            return self._assumed
        return infer_type(tree, lambda _: None, ntz=False)


def _number(name: str) -> int:
    return int(name.rpartition("__")[2]) if name.rpartition("__")[2].isdigit() else -1


def _is_literal(tree: exp.Expression) -> bool:
    """Whether a name is a text: plans write no quotes around it, and each attribute with its number."""
    return isinstance(tree, exp.Column) and not tree.table and _number(tree.name) < 0


def _named(reason: str) -> str:
    """A text with the user's names in it: without the numbers of attributes."""
    return re.sub(r"(\w)__\d+\b", r"\1", reason).rstrip(".")


def _sentence(reason: str) -> str:
    return reason if re.match(r"\S*[(.`_#]|\w+ (bounds|adds|[<>=])", reason) else reason[:1].upper() + reason[1:]
