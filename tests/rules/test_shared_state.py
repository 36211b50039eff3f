"""Joins that share a state: what is read and kept of each input, and which joins may come later.  No Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dovetail import Options
from dovetail.optimizer.streams.queries import StreamPlanner, StreamQuery
from dovetail.planner.errors import StateError, Unsupported
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from dovetail.planner.state.refusals import check_settings
from dovetail.planner.state.shared import Shared, share
from dovetail.planner.state.spec import MEANING, Input, StreamJoin, described_settings
from dovetail.planner.state.stream import Stream

COLUMNS = (("id", "int"), ("k", "int"), ("v", "double"), ("ts", "timestamp"))

with TemporaryDirectory() as folder:
    file = Path(folder) / "catalog.toml"
    columns = ", ".join(f'{name} = "{type_.upper()}"' for name, type_ in COLUMNS)
    file.write_text("\n".join(f"[tables.{name}]\ncolumns = {{ {columns} }}\nstream = true" for name in "stu"))
    CATALOG = read_catalog(file)

FIRST = "SELECT a.k, b.v FROM s a JOIN t b ON a.k = b.k WHERE a.v > 0"
SECOND = "SELECT b.id FROM t b JOIN s a ON a.id = b.id WHERE a.k = 1 AND b.v > 2"
BAND = "SELECT a.k FROM s a JOIN u b ON b.id BETWEEN a.id AND a.id + 2"
THREE = "SELECT a.k FROM s a JOIN t b ON a.k = b.k JOIN u c ON b.k = c.k WHERE c.v IS NOT NULL"


def join(query: str, **more: Any) -> StreamJoin:
    def find(name: tuple[str, ...]) -> Stream | None:
        return replace(Stream(COLUMNS), **more) if name[0] in "stu" else None

    found = StreamPlanner(CATALOG, Options(strict=True), find).plan(StreamQuery(query, state_modules=True))
    assert found.join, found.reason
    return found.join


def kept(shared: Shared) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Of each input the columns, the rows and the marks that are kept."""
    return {i.name: (" ".join(c.name for c in i.columns), i.keep, i.marks) for i in shared.inputs}


def test_all_that_any_of_them_needs() -> None:
    shared = share([join(FIRST), join(SECOND), join(BAND)])
    assert kept(shared) == {
        "s": ("id k v", "", ("`id`", "`k`")),
        "t": ("id k v", "", ("`id`", "`k`")),
        "u": ("id", "", ("`id`",)),
    }
    assert [c.stored for i in shared.inputs for c in i.columns] == [f"c{n}" for n in range(7)]
    for given, own in zip((FIRST, SECOND, BAND), shared.joins, strict=True):
        alone = join(given)
        assert own.inputs == shared.inputs
        assert [named(own.inputs, s.input) for s in own.sides] == [named(alone.inputs, s.input) for s in alone.sides]
        assert [side.rows for side in own.sides] == [side.rows for side in alone.sides]
        assert ends(own) == ends(alone)


def named(inputs: tuple[Input, ...], number: int) -> str:
    return inputs[number].name


def ends(one: StreamJoin) -> list[tuple[str, str, int]]:
    """The reaches of a join, with the marks that they compare."""

    def mark(end: tuple[int, int]) -> str:
        return one.inputs[one.sides[end[0]].input].marks[end[1]]

    return [(mark(r.small), mark(r.large), r.least) for r in one.reaches]


def test_rows_that_any_of_them_needs() -> None:
    """Those with NULL in a key are kept: another join may ask for another key."""
    assert {name: rows for name, (_, rows, _) in kept(share([join(FIRST)])).items()} == {"s": "(`v` > 0)", "t": ""}
    both = kept(share([join(FIRST), join(SECOND)]))
    assert (both["s"][1], both["t"][1]) == ("((`k` = 1)) OR ((`v` > 0))", "")
    narrower = "SELECT a.k, b.v FROM s a JOIN t b ON a.k = b.k WHERE a.v > 0 AND a.id < 7 AND (b.id = 1 OR b.v < 2)"
    more = kept(share([join(FIRST), join(narrower), join(SECOND.replace("b.v > 2", "b.id > 2"))]))
    assert more["s"][1] == both["s"][1]
    alone = kept(share([join(narrower), join(SECOND)]))
    assert alone["t"][1] == "((`id` = 1 OR `v` < 2)) OR ((`v` > 2))"


def test_conditions_keep_their_order() -> None:
    """One may keep the next from raising an error; what says last that a key is not NULL is left out."""
    guarded = "SELECT a.k, b.v FROM s a JOIN t b ON a.k = b.k WHERE b.id {} 0 AND b.id IS NOT NULL AND 10 / b.id > 1"
    shared = share([join(guarded.format("<>")), join(guarded.format(">"))])
    assert kept(shared)["t"][1] == " OR ".join(
        f"((`id` {sign} 0) AND (NOT `id` IS NULL) AND (10 / `id` > 1))" for sign in ("<>", ">")
    )


def test_the_order_does_not_matter() -> None:
    joins = [join(FIRST), join(BAND), join(THREE)]
    assert share(joins).inputs == share(joins[::-1]).inputs
    assert share(joins).to_json() == share(joins[::-1]).to_json()


def test_all_sides_as_one() -> None:
    shared = share([join(FIRST), join(THREE)])
    stored = shared.stored
    assert [s.input for s in stored.sides] == [s.input for own in shared.joins for s in own.sides]
    assert ends(stored) == [end for own in shared.joins for end in ends(own)]
    assert shared.joins[1].delta
    assert shared.joins[1].delta.sources == tuple(s.input for s in shared.joins[1].sides)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (FIRST, ""),
        (FIRST.replace("b.v", "b.k"), ""),
        (FIRST.replace("> 0", "> 0 AND a.k < 3"), ""),
        ("SELECT a.k FROM s a JOIN s b ON a.k = b.k AND a.v <> b.v WHERE a.v > 0 AND b.v > 0", ""),
        (
            FIRST.replace("> 0", "> 1"),
            r"has only rows of s where \(`v` > 0\), and this view needs those where \(`v` > 1\)",
        ),
        (FIRST.replace("WHERE", "WHERE a.id > 1 AND"), "does not have id int of s"),
        (THREE.replace("WHERE", "WHERE a.v > 0 AND"), "does not have u"),
    ],
)
def test_a_state_that_is_there(later: str, said: str) -> None:
    """What it keeps decides; a join that needs nothing else may come, whatever the state was begun for."""
    begun = share([join(FIRST)])
    if said:
        with pytest.raises(StateError, match=f"the state in here {said}.*; build these views in a folder of their own"):
            share([join(later)], begun.to_json(), "here")
        return
    found = share([join(later)], begun.to_json(), "here")
    assert found.inputs == begun.inputs
    found.check_same(begun.to_json(), "here")


def test_a_mark_that_is_not_known() -> None:
    """Without it no segment is passed over; a join by another key may come all the same."""
    begun = share([join("SELECT a.id, b.id FROM s a JOIN t b ON a.k = b.k")])
    by_id = join("SELECT a.id, b.id FROM s a JOIN t b ON a.id = b.id")
    assert ends(by_id) == [("`id`", "`id`", 0), ("`id`", "`id`", 0)]
    (found,) = share([by_id], begun.to_json(), "here").joins
    assert (found.inputs, found.reaches) == (begun.inputs, ())


def test_states_of_something_else() -> None:
    one, shared = join(FIRST), share([join(FIRST)])
    with pytest.raises(StateError, match="belongs to one query"):
        share([one], one.to_json(), "here")
    with pytest.raises(StateError, match="belongs to views on one state"):
        one.check_same(shared.to_json(), "here")
    with pytest.raises(StateError, match="here cannot be read"):
        share([one], "{", "here")
    other = tuple((name, "other") for name, _ in one.settings)
    with pytest.raises(
        StateError, match=r"was written under other settings: .* was .* and is other.*; restore them, or"
    ):
        share([replace(one, settings=other)]).check_same(shared.to_json(), "here")


def test_a_setting_that_older_states_do_not_have() -> None:
    off = described_settings(("true", "false", "UTC", "false"))
    on = described_settings(("true", "false", "UTC", "true"))
    assert [name for name, _ in off] == [*MEANING[:3]]
    check_settings("here", off, off, "begin again")
    with pytest.raises(StateError, match="doubleQuotedIdentifiers was false and is true"):
        check_settings("here", off, on, "begin again")
    with pytest.raises(StateError, match="doubleQuotedIdentifiers was true and is false"):
        check_settings("here", on, off, "begin again")


def test_what_is_not_shared() -> None:
    with pytest.raises(Unsupported, match="s has a watermark"):
        share([join("SELECT a.k FROM s a JOIN t b ON a.k = b.k", event_time="ts")])
    with pytest.raises(Unsupported, match="s occurs twice and is not deterministic"):
        share([join("SELECT a.k FROM s a JOIN s b ON a.k = b.k", deterministic=False)])
