"""Random tables, and aggregates of a table's own rows within a band of each row, of the values that break windows."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from random_bands import KINDS, Kind, key_kind, key_values

_TAGS = Kind("STRING", ("'a'", "'b'"), ("''",))
_REALS = Kind("DOUBLE", ("0.5D", "1.25D", "-3D", "100D"), ("0D",))
# The days before clocks change, and on which they do, in Europe; about a day apart, to the microsecond.
_CLOCKS = tuple(
    f"TIMESTAMP'{day} {time}'"
    for day in ("2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25")
    for time in ("11:00:00", "11:00:00.000001", "12:00:00", "13:00:00")
)
_ABOUT_A_DAY = (
    *("INTERVAL '23:59:59.999999' HOUR TO SECOND", "INTERVAL '23:59:59.999998' HOUR TO SECOND", "INTERVAL 23 HOURS"),
    *("INTERVAL '1' DAY", "INTERVAL '86400' SECOND", "INTERVAL '1 00:00:00.000001' DAY TO SECOND"),
)
_KINDS = KINDS | {"clocks": Kind("TIMESTAMP", _CLOCKS, (), _ABOUT_A_DAY)}
_POSITIONS = ("int", "bigint", "tinyint", "date", "timestamp", "timestamp_ntz", "decimal", "double", "clocks")
_VALUES = {"int": KINDS["int"], "bigint": KINDS["bigint"], "decimal": KINDS["decimal"], "double": _REALS}


@dataclass(frozen=True)
class SelfBand:
    """A table ``t``, as a query; the query over it; and the session's settings."""

    table: str
    query: str
    ansi: bool
    zone: str


@st.composite
def self_bands(draw: st.DrawFn) -> SelfBand:
    """A query that windows can tell, now and then one that they cannot."""
    position, value = draw(st.sampled_from(_POSITIONS)), draw(st.sampled_from(list(_VALUES)))
    edges, nulls = draw(st.booleans()), draw(st.sampled_from([True, True, False]))
    form = draw(st.sampled_from([_subquery, _subquery, _joined, _joined, _left]))
    query = form(draw, _KINDS[position])
    edges &= value != "bigint" or "avg(" not in query  # Spark adds them up as DOUBLE: beyond 2^53 their order decides
    table = _table(draw, _KINDS[position], _VALUES[value], edges=edges, nulls=nulls)
    ansi = draw(st.sampled_from([True, True, True, False]))
    zones = ["UTC", "UTC", "Europe/Berlin"] if position != "clocks" else ["Europe/Berlin"]
    return SelfBand(table, query, ansi, draw(st.sampled_from(zones)))


def _table(draw: st.DrawFn, position: Kind, value: Kind, *, edges: bool, nulls: bool) -> str:
    def of(kind: Kind, *, rare: bool) -> st.SearchStrategy[str]:
        usual = st.sampled_from(kind.values)
        more = [st.sampled_from(kind.edges)] if rare and kind.edges else []
        return st.one_of(usual, usual, usual, *more, *([st.just(f"CAST(NULL AS {kind.sql})")] if nulls else []))

    few = Kind(position.sql, tuple(draw(st.lists(st.sampled_from(position.values), min_size=3, max_size=8))), ())
    key = key_values(key_kind(draw), nulls)
    where = st.one_of(of(few, rare=False), of(position, rare=edges))
    row = st.tuples(st.sampled_from("1234567"), key, where, of(value, rare=edges), of(_TAGS, rare=False))
    rows = draw(st.lists(row, min_size=5, max_size=14))
    said = ", ".join(f"({', '.join(r)})" for r in rows)
    return f"SELECT * FROM VALUES {said} AS t(id, k, ts, v, tag)"


def _band(draw: st.DrawFn, kind: Kind) -> str:
    """A band of y around x."""
    a, b = (draw(st.sampled_from(kind.constants or ("0",))) for _ in range(2))
    less, most = draw(st.sampled_from(["<", "<="])), draw(st.sampled_from(["<", "<="]))
    forms = [
        f"y.ts BETWEEN x.ts - {a} AND x.ts",
        f"y.ts BETWEEN x.ts - {a} AND x.ts + {b}",
        f"x.ts BETWEEN y.ts - {a} AND y.ts + {b}",
        f"y.ts {less} x.ts AND x.ts - {a} {most} y.ts",
        f"x.ts {less} y.ts AND y.ts {most} x.ts + {b}",
        f"y.ts + {a} {less} x.ts AND y.ts + {b} {most} x.ts",
        f"y.ts {less} x.ts",
        f"y.ts {most} x.ts",
        f"x.ts {less} y.ts",
        f"x.ts {most} y.ts + {a}",
        f"y.ts {less} x.ts + {b}",
        "y.ts BETWEEN x.ts AND x.ts",
    ]
    if "INTERVAL" not in a + b and kind.sql != "DATE":
        forms += [f"abs(y.ts - x.ts) {less} {a}", f"x.ts - y.ts {less} {a} AND y.ts - x.ts {most} {b}"]
    return draw(st.sampled_from(forms))


_BESIDE_Y = ("y.v > 1", "y.tag = 'a'", "y.v IS NOT NULL", "(y.tag = 'b' OR y.v < 3)")
_BESIDE = (*_BESIDE_Y, "x.tag = 'a'", "x.v < 5", "y.id <> x.id", "y.tag <> x.tag", "x.v < y.v")


def _condition(draw: st.DrawFn, kind: Kind) -> str:
    keys = draw(st.sampled_from(["y.k = x.k", "y.k = x.k", "x.k = y.k AND y.tag = x.tag", "y.k <=> x.k", ""]))
    more = draw(st.lists(st.sampled_from(_BESIDE), max_size=2, unique=True)) if draw(st.booleans()) else []
    parts = [p for p in (keys, _band(draw, kind), *more) if p]
    return " AND ".join(draw(st.permutations(parts)))


_TOTALS = ("count(*)", "count(y.v)", "sum(y.v)", "min(y.v)", "max(y.ts)", "avg(y.v)", "max(y.tag)", "min(y.ts)")
_RARE = ("count(DISTINCT y.v)", "sum(y.v + 1)", "sum(y.v - x.v)", "first(y.v)", "stddev(y.v)")


def _total(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(_RARE if draw(st.integers(0, 14)) == 0 else _TOTALS))


def _subquery(draw: st.DrawFn, kind: Kind) -> str:
    total = _total(draw)
    form = draw(st.sampled_from(["{}", "{}", "coalesce({}, {})", "{} IS NULL"]))
    one = f"(SELECT {form.format(total, total)} FROM t y WHERE {_condition(draw, kind)})"
    query = f"SELECT x.*, {one} AS found FROM t x"
    if "IS NULL" not in form and draw(st.booleans()):
        outer = draw(st.sampled_from([f"{one} IS NULL", f"coalesce({one}, {one}) IS NOT NULL"]))
        query = f"SELECT x.id, x.ts FROM t x WHERE x.tag IS NOT NULL AND {outer}"
    elif draw(st.booleans()):
        query += draw(
            st.sampled_from([" WHERE x.tag = 'a'", " JOIN t z ON x.id = z.id", " ORDER BY x.id, x.ts LIMIT 100"])
        )
    return query


def _grouped(draw: st.DrawFn, tables: str, keyed: str = "") -> str:
    groups = draw(st.sampled_from(["", "x.id, x.ts", "x.k", "x.tag", "x.id", "x.v, x.tag", keyed]))
    totals = {_total(draw): None for _ in range(draw(st.integers(1, 3)))}
    if draw(st.booleans()):
        totals[draw(st.sampled_from(["max(x.v)", "max(x.v)", "count(x.v)", "count(DISTINCT x.v)"]))] = None
    items = [*(groups.split(", ") if groups else []), *(f"{t} AS c{n}" for n, t in enumerate(totals))]
    query = f"SELECT {', '.join(items)} FROM {tables}" + (f" GROUP BY {groups}" if groups else "")
    query += draw(st.sampled_from(["", "", " HAVING count(*) > 1", " HAVING max(y.ts) IS NOT NULL"]))
    return query + (draw(st.sampled_from(["", " ORDER BY count(*), 1", " ORDER BY c0"])) if groups else "")


def _joined(draw: st.DrawFn, kind: Kind) -> str:
    condition = _condition(draw, kind)
    tables = draw(st.sampled_from(["t x JOIN t y ON {}", "t y JOIN t x ON {}", "t x, t y WHERE {}"]))
    return _grouped(draw, tables.format(condition), "y.k" if "y.k = x.k" in condition else "")


def _left(draw: st.DrawFn, kind: Kind) -> str:
    where = draw(st.sampled_from(["", "", " WHERE x.tag = 'a'", " WHERE y.v > 1"]))
    return _grouped(draw, f"t x LEFT JOIN t y ON {_condition(draw, kind)}{where}", "y.k")
