"""Several joins over one state: each input is read once and kept once, with all that any of them needs of it.

    A ⋈ B        reads A (k, x)    B (k)            both read       A (k, x, y)    B (k)    C (y)
    A ⋈ C        reads A (y)       C (y)

A state has one clock: its epochs are those of one streaming query.  So the joins that share it are asked in the same
epochs, each over the arrangements as they are then (Materialize and RisingWave share arrangements between queries, at
times of their own; Spark has no clock that two streaming queries share).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlglot import exp

from planner.errors import StateError, Unsupported
from planner.expr import Scalar, canonical
from planner.state.refusals import damaged, hold_settings
from planner.state.spec import FORMAT, Blocks, Input, Kept, Reach, Side, StreamJoin, read_description

_ANEW = "build these views in a folder of their own"


@dataclass(frozen=True)
class Shared:
    """What is read and kept, and the ``joins`` over it, whose inputs are all the same."""

    inputs: tuple[Input, ...]
    joins: tuple[StreamJoin, ...]

    @property
    def stored(self) -> StreamJoin:
        """All sides of all joins as one, which tells what is to be kept, and in which order; it asks for nothing."""
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
            Blocks((), (), (), ()),
            ("",) * len(sides),
            (),
            "",
            self.joins[0].settings,
            next((join.changes for join in self.joins if join.changes), ""),
        )

    def to_json(self) -> str:
        """What is written beside the state."""
        said = {"format": FORMAT, "inputs": [asdict(i) for i in self.inputs], "settings": self.joins[0].settings}
        return json.dumps(said, indent=1, ensure_ascii=False)

    def hold_against(self, written: str, where: str) -> None:
        """Raise ``StateError`` unless the state in ``where``, described by ``written``, is of these inputs."""
        old, new = read_description(written, where), json.loads(self.to_json())
        if "text" in old:
            raise StateError(f"the state in {where} is of one query alone, as opt.keep and opt.stream make it; {_ANEW}")
        hold_settings(where, old.get("settings", ()), new["settings"], _ANEW)
        if old != new:
            raise StateError(f"the state in {where} is of other inputs; {_ANEW}")


def share(joins: Sequence[StreamJoin], written: str | None = None, where: str = "") -> Shared:
    """Let joins share what they read: all that any of them needs of it, or what a state already keeps.

    ``written`` describes the state in ``where``, if there is one.  In whatever order the joins come, the inputs are the
    same.  Raises ``Unsupported`` where one of them has rows that leave the state by a watermark, which is of one query;
    ``StateError`` for a state that lacks something that they need.
    """
    if timed := next((i for join in joins for i in join.inputs if i.event_time), None):
        raise Unsupported(f"{timed.name} has a watermark, and each view would let other rows go by it")
    for join in joins:
        read = [_read(i) for i in join.inputs]
        if twice := next((i.name for n, i in enumerate(join.inputs) if read[n] in read[:n]), None):
            raise Unsupported(f"{twice} stands twice, and is not deterministic")
    inputs = _written(written, where) if written else _needed(joins)
    return Shared(inputs, tuple(_over(join, inputs, where) for join in joins))


def _needed(joins: Sequence[StreamJoin]) -> tuple[Input, ...]:
    """What joins need of all that they read."""
    together: dict[tuple[str, str], list[Input]] = {}
    for input_ in (i for join in joins for i in join.inputs):
        together.setdefault(_read(input_), []).append(input_)
    inputs: list[Input] = []
    stored = 0
    for _, own in sorted(together.items()):
        inputs.append(_one(own, stored))
        stored += len(inputs[-1].columns)
    return tuple(inputs)


def _written(text: str, where: str) -> tuple[Input, ...]:
    """What a state keeps.  Raises ``StateError`` where its description cannot be read, or is of one query alone."""
    found = read_description(text, where)
    if "text" in found:
        raise StateError(f"the state in {where} is of one query alone, as opt.keep and opt.stream make it; {_ANEW}")
    try:
        return tuple(map(_input, found["inputs"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(f"{where} cannot be read: {error}") from error


def _input(said: dict[str, Any]) -> Input:
    columns = tuple(Kept(**column) for column in said["columns"])
    return Input(**{**said, "columns": columns, "marks": tuple(said["marks"]), "key": tuple(said["key"])})


def any_of(conditions: Iterable[str]) -> str:
    """Rows that fulfil one of several conditions; nothing where one of them takes all."""
    found = list(dict.fromkeys(conditions))
    if not all(found):
        return ""
    return found[0] if len(found) == 1 else " OR ".join(f"({c})" for c in found)


def _alternatives(condition: str) -> Iterator[tuple[str, ...]]:
    """A condition as alternatives, each of them conjuncts in order; none of these where it takes all rows.

    The order stays, since one conjunct may keep the next from raising an error.
    """
    if not condition:
        yield ()
        return
    for one in _flat(Scalar(condition).tree, exp.Or):
        yield tuple(dict.fromkeys(map(canonical, _flat(one, exp.And))))


def _wider(conjuncts: tuple[str, ...]) -> tuple[str, ...]:
    """Conjuncts without the last ones, as long as these say that something is not NULL.

    Few rows fail them, and other keys can be asked for later.
    """
    kept = list(conjuncts)
    while kept and _is_not_null(Scalar(kept[-1]).tree.unnest()):
        del kept[-1]
    return tuple(kept)


def _is_not_null(tree: Any) -> bool:
    return isinstance(tree, exp.Not) and isinstance(of := tree.this.unnest(), exp.Is) and of.right == exp.null()


def _said(alternatives: Iterable[tuple[str, ...]]) -> str:
    """Alternatives as a condition, without those that another one includes."""
    found = sorted(set(alternatives), key=lambda one: (len(one), one))
    needed: list[tuple[str, ...]] = []
    for one in found:
        if not any(set(other) <= set(one) for other in needed):
            needed.append(one)
    return any_of(sorted(" AND ".join(f"({conjunct})" for conjunct in one) for one in needed))


def _flat(tree: Any, kind: type[exp.Connector]) -> list[Any]:
    """What stands between the ANDs, or the ORs, of a condition."""
    tree = tree.unnest()
    if not isinstance(tree, kind):
        return [tree]
    return [*_flat(tree.left, kind), *_flat(tree.right, kind)]


def _read(input_: Input) -> tuple[str, str]:
    """What tells inputs apart: what they read, and the column by which its rows change."""
    return input_.relation, input_.change


def _one(own: Sequence[Input], stored: int) -> Input:
    """Several inputs that read the same as one, whose columns are stored under names from a number on."""
    types = {column.name: column.type for input_ in own for column in input_.columns}
    columns = tuple(Kept(f"c{stored + n}", name, types[name]) for n, name in enumerate(sorted(types)))
    keep = _said(_wider(wanted) for i in own for wanted in _alternatives(i.keep))
    marks = tuple(sorted({mark for i in own for mark in i.marks}))
    return replace(own[0], columns=columns, rows=keep, keep=keep, marks=marks)


def _over(join: StreamJoin, inputs: tuple[Input, ...], where: str) -> StreamJoin:
    """A join over shared inputs.  Raises ``StateError`` where these, of the state in ``where``, lack what it needs.

    Where they lack only a mark, no segment is passed over by it.
    """
    numbers = {_read(input_): number for number, input_ in enumerate(inputs)}
    for own in join.inputs:
        if _read(own) in numbers:
            continue
        if other := next((i for i in inputs if i.relation == own.relation), None):
            kept, now = (f"as changes by {i.change}" if i.change else "as rows that only come" for i in (other, own))
            raise StateError(
                f"the state in {where} has {own.name} {kept}, and it is declared {now}; declare it as it was"
            )
        raise StateError(f"the state in {where} does not have {own.name}; {_ANEW}")
    of = [numbers[_read(own)] for own in join.inputs]
    for own, number in zip(join.inputs, of, strict=True):
        if lacking := _lacking(own, inputs[number]):
            raise StateError(f"the state in {where} {lacking}; {_ANEW}")

    def at(end: tuple[int, int]) -> tuple[int, int] | None:
        side, mark = end
        own = join.sides[side].input
        marks, wanted = inputs[of[own]].marks, join.inputs[own].marks[mark]
        return (side, marks.index(wanted)) if wanted in marks else None

    ends = ((at(r.small), at(r.large), r.least) for r in join.reaches)
    return replace(
        join,
        inputs=inputs,
        sides=tuple(replace(side, input=of[side.input]) for side in join.sides),
        reaches=tuple(Reach(small, large, least) for small, large, least in ends if small and large),
        delta=join.delta and replace(join.delta, sources=tuple(of[source] for source in join.delta.sources)),
    )


def _lacking(own: Input, one: Input) -> str:
    """What a join needs of an input that is not kept of it."""
    stored = {(c.name, c.type) for c in one.columns}
    if columns := [f"{c.name} {c.type}" for c in own.columns if (c.name, c.type) not in stored]:
        return f"does not have {', '.join(columns)} of {own.name}"
    if one.keep and not (own.keep and _implies(Scalar(own.keep).tree, Scalar(one.keep).tree)):
        needed = f"those where {own.keep}" if own.keep else "all of them"
        return f"has only rows of {own.name} where {one.keep}, and this view needs {needed}"
    return ""


def _implies(one: Any, other: Any) -> bool:
    """Whether, as far as AND and OR tell, a row that fulfils one condition fulfils another."""
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
