"""Shares one state among several joins: each input is read and stored once, with all that any join needs of it.

    A ⋈ B        reads A (k, x)    B (k)            both read       A (k, x, y)    B (k)    C (y)
    A ⋈ C        reads A (y)       C (y)

A state has one clock: its epochs are those of one streaming query.  So the joins that share it run in the same epochs,
over the same arrangements (Materialize and RisingWave share arrangements between queries at different times; Spark has
no clock that two streaming queries share).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

from sqlglot import exp

from dovetail.planner.conditions.compared import flat, null_test
from dovetail.planner.errors import StateError, Unsupported
from dovetail.planner.expr import Scalar, canonical
from dovetail.planner.state.fingerprint import Given
from dovetail.planner.state.program import EpochProgram
from dovetail.planner.state.refusals import check_settings, damaged
from dovetail.planner.state.spec import FORMAT, Input, Reach, Side, StoredColumn, StreamJoin, read_description

_NEW_FOLDER = "build these views in a folder of their own"


@dataclass(frozen=True)
class Shared:
    """The inputs that are read and stored, and the ``joins`` over all of them."""

    inputs: tuple[Input, ...]
    joins: tuple[StreamJoin, ...]

    @property
    def stored(self) -> StreamJoin:
        """All sides of all joins as one join, which describes the stored inputs; it returns no rows."""
        sides: list[Side] = []
        reaches: list[Reach] = []
        for join in self.joins:
            reaches += (_moved(reach, len(sides)) for reach in join.reaches)
            sides += join.sides
        return StreamJoin(
            "; ".join(" ".join(join.text.split()) for join in self.joins),
            "inner",
            self.inputs,
            tuple(sides),
            tuple(reaches),
            EpochProgram(),
            ("",) * len(sides),
            (),
            "",
            self.joins[0].settings,
            next((join.changes for join in self.joins if join.changes), ""),
        )

    def to_json(self) -> str:
        """Describe the inputs for the file next to the state."""
        document = {"format": FORMAT, "inputs": [asdict(i) for i in self.inputs], "settings": self.joins[0].settings}
        return json.dumps(document, indent=1, ensure_ascii=False)

    def check_same(self, written: str, where: str) -> None:
        """Raise ``StateError`` unless the state in ``where``, described by ``written``, is of these inputs."""
        old, new = _read_shared(written, where), json.loads(self.to_json())
        check_settings(where, old.get("settings", ()), new["settings"], _NEW_FOLDER)
        if old != new:
            raise StateError(f"the state in {where} belongs to other inputs; {_NEW_FOLDER}")


def share(joins: Sequence[StreamJoin], written: str | None = None, where: str = "") -> Shared:
    """Make joins share their inputs: with all that any of them needs, or as an existing state stores them.

    ``written`` describes the state in ``where``, if there is one.  The inputs do not depend on the order of the joins.
    Raises ``Unsupported`` if rows of one of them expire by a watermark, which belongs to one query; ``StateError`` for
    a state that lacks rows or columns that they need.
    """
    if timed := next((i for join in joins for i in join.inputs if i.event_time), None):
        raise Unsupported(f"{timed.name} has a watermark, and each view would expire other rows by it")
    for join in joins:
        read = [_read(i) for i in join.inputs]
        if twice := next((i.name for n, i in enumerate(join.inputs) if read[n] in read[:n]), None):
            raise Unsupported(f"{twice} occurs twice and is not deterministic")
    inputs = _written(written, where) if written else _needed(joins)
    return Shared(inputs, tuple(_over(join, inputs, where) for join in joins))


def _needed(joins: Sequence[StreamJoin]) -> tuple[Input, ...]:
    """Return the inputs that joins need."""
    same_source: dict[tuple[str, str], list[Input]] = {}
    for input_ in (_without_texts(i, join.given) for join in joins for i in join.inputs):
        same_source.setdefault(_read(input_), []).append(input_)
    inputs: list[Input] = []
    stored = 0
    for _, group in sorted(same_source.items()):
        inputs.append(_merge_inputs(group, stored))
        stored += len(inputs[-1].columns)
    return tuple(inputs)


def _without_texts(input_: Input, given: Given | None) -> Input:
    """Remove the conditions of a shared input that contain text arguments.

    These may be secrets, and the description of the state is stored.  So more rows are stored, and each view filters.
    """
    texts = given.texts if given else ()
    if not texts:
        return input_

    def contains_argument(words: str) -> bool:
        return any(text in words for text in texts)

    alternatives = (takewhile(lambda words: not contains_argument(words), one) for one in _alternatives(input_.keep))
    keep = _disjunction(map(tuple, alternatives))
    return replace(
        input_, rows=keep, keep=keep, marks=tuple(mark for mark in input_.marks if not contains_argument(mark))
    )


def _written(text: str, where: str) -> tuple[Input, ...]:
    """Read the inputs of a state.  Raises ``StateError`` if the description is unreadable, or of one query alone."""
    found = _read_shared(text, where)
    try:
        return tuple(map(_input, found["inputs"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(f"{where} cannot be read: {error}") from error


def _read_shared(text: str, where: str) -> dict[str, Any]:
    """Read the description of a state.  Raises ``StateError`` if it is unreadable, or of one query alone."""
    found = read_description(text, where)
    if "text" in found:
        raise StateError(
            f"the state in {where} belongs to one query, as opt.materialize and opt.stream make it; {_NEW_FOLDER}"
        )
    return found


def _input(document: dict[str, Any]) -> Input:
    columns = tuple(StoredColumn(**column) for column in document["columns"])
    return Input(**{**document, "columns": columns, "marks": tuple(document["marks"]), "key": tuple(document["key"])})


def any_of(conditions: Iterable[str]) -> str:
    """Combine conditions by OR; empty if one of them is empty, which accepts all rows."""
    found = list(dict.fromkeys(conditions))
    if not all(found):
        return ""
    return found[0] if len(found) == 1 else " OR ".join(f"({c})" for c in found)


def _alternatives(condition: str) -> Iterator[tuple[str, ...]]:
    """Split a condition into alternatives, each a list of conjuncts in order; no conjuncts if it accepts all rows.

    The order stays, since one conjunct may keep the next from raising an error.
    """
    if not condition:
        yield ()
        return
    for one in flat(Scalar(condition).tree, exp.Or):
        yield tuple(dict.fromkeys(map(canonical, flat(one, exp.And))))


def _wider(conjuncts: tuple[str, ...]) -> tuple[str, ...]:
    """Drop the last conjuncts that are IS NOT NULL.

    Few rows fail them, and a later view may need other keys.
    """
    wider = list(conjuncts)
    while wider and isinstance(last := Scalar(wider[-1]).tree.unnest(), exp.Not) and null_test(last.this.unnest()):
        del wider[-1]
    return tuple(wider)


def _disjunction(alternatives: Iterable[tuple[str, ...]]) -> str:
    """Combine alternatives to a condition, without those that another one includes."""
    found = sorted(set(alternatives), key=lambda one: (len(one), one))
    needed: list[tuple[str, ...]] = []
    for one in found:
        if not any(set(other) <= set(one) for other in needed):
            needed.append(one)
    return any_of(sorted(" AND ".join(f"({conjunct})" for conjunct in one) for one in needed))


def _read(input_: Input) -> tuple[str, str]:
    """Return the identity of an input: its relation, and the column with the kind of change."""
    return input_.relation, input_.change


def _merge_inputs(same: Sequence[Input], stored: int) -> Input:
    """Merge inputs of the same relation; their columns are stored under numbered names from ``stored`` on."""
    types = {column.name: column.type for input_ in same for column in input_.columns}
    columns = tuple(StoredColumn(f"c{stored + n}", name, types[name]) for n, name in enumerate(sorted(types)))
    keep = _disjunction(_wider(wanted) for i in same for wanted in _alternatives(i.keep))
    marks = tuple(sorted({mark for i in same for mark in i.marks}))
    return replace(same[0], columns=columns, rows=keep, keep=keep, marks=marks)


def _over(join: StreamJoin, inputs: tuple[Input, ...], where: str) -> StreamJoin:
    """Move a join to shared inputs.  Raises ``StateError`` if these, of the state in ``where``, lack what it needs.

    If they lack only a mark, no segment is pruned by it.
    """
    numbers = {_read(input_): number for number, input_ in enumerate(inputs)}
    for input_ in join.inputs:
        if _read(input_) in numbers:
            continue
        if other := next((i for i in inputs if i.relation == input_.relation), None):
            before, now = (f"as changes by {i.change}" if i.change else "as inserts only" for i in (other, input_))
            raise StateError(
                f"the state in {where} stores {input_.name} {before}, and it is declared {now}; declare it as before"
            )
        raise StateError(f"the state in {where} does not have {input_.name}; {_NEW_FOLDER}")
    of = [numbers[_read(input_)] for input_ in join.inputs]
    for input_, number in zip(join.inputs, of, strict=True):
        if lacking := _lacking(input_, inputs[number], secret=join.given is not None):
            raise StateError(f"the state in {where} {lacking}; {_NEW_FOLDER}")

    def at(end: tuple[int, int]) -> tuple[int, int] | None:
        side, mark = end
        number = join.sides[side].input
        marks, wanted = inputs[of[number]].marks, join.inputs[number].marks[mark]
        return (side, marks.index(wanted)) if wanted in marks else None

    ends = ((at(r.small), at(r.large), r.least) for r in join.reaches)
    return replace(
        join,
        inputs=inputs,
        sides=tuple(replace(side, input=of[side.input]) for side in join.sides),
        reaches=tuple(Reach(small, large, least) for small, large, least in ends if small and large),
        delta=join.delta and replace(join.delta, sources=tuple(of[source] for source in join.delta.sources)),
    )


def _lacking(needed: Input, stored: Input, *, secret: bool) -> str:
    """Describe what a join needs of an input that is not stored; ``secret``: its conditions have argument values."""
    columns = {(c.name, c.type) for c in stored.columns}
    if missing := [f"{c.name} {c.type}" for c in needed.columns if (c.name, c.type) not in columns]:
        return f"does not have {', '.join(missing)} of {needed.name}"
    if stored.keep and not (needed.keep and _implies(Scalar(needed.keep).tree, Scalar(stored.keep).tree)):
        rows = "others" if secret else f"those where {needed.keep}" if needed.keep else "all of them"
        return f"has only rows of {needed.name} where {stored.keep}, and this view needs {rows}"
    return ""


def _implies(one: Any, other: Any) -> bool:
    """Whether one condition implies another, by their ANDs and ORs alone."""
    one, other = one.unnest(), other.unnest()
    if isinstance(one, exp.Or):
        return _implies(one.left, other) and _implies(one.right, other)
    if isinstance(other, exp.And):
        return _implies(one, other.left) and _implies(one, other.right)
    if isinstance(one, exp.And) and (_implies(one.left, other) or _implies(one.right, other)):
        return True
    if isinstance(other, exp.Or):
        return _implies(one, other.left) or _implies(one, other.right)
    return canonical(one) == canonical(other)


def _moved(reach: Reach, by: int) -> Reach:
    (small, small_mark), (large, large_mark) = reach.small, reach.large
    return Reach((small + by, small_mark), (large + by, large_mark), reach.least)
