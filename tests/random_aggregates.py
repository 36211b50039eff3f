"""Random aggregates over random band joins, of the values that break sums."""

from __future__ import annotations

from hypothesis import strategies as st

from random_bands import KINDS, Kind, RandomQuery, key_kind, key_values

SAME = ("int", "bigint", "tinyint", "double", "float", "decimal", "wide", "date", "timestamp", "timestamp_ntz")
MIXED = (("int", "bigint"), ("smallint", "int"), ("float", "double"), ("int", "decimal"), ("decimal", "bigint"))
SUMMED = ("smallint", "int", "bigint", "decimal")
_TAGS = Kind("STRING", ("'a'", "'b'", "''"), ("'z'",))


@st.composite
def aggregates(draw: st.DrawFn) -> RandomQuery:
    """An aggregate that running sums can tell, now and then one that they cannot."""
    point, end = draw(st.one_of(st.sampled_from([(n, n) for n in SAME]), st.sampled_from(MIXED)))
    p, i = (KINDS[draw(st.sampled_from(SUMMED))] for _ in range(2))
    edges, nulls = draw(st.booleans()), draw(st.sampled_from([True, True, False]))
    key = key_values(key_kind(draw), nulls)
    points = _rows(draw, key, (KINDS[point], _TAGS, p), (edges, False, edges), nulls)
    intervals = _rows(draw, key, (KINDS[end], KINDS[end], i), (edges, edges, edges), nulls)
    condition = [_band(draw, KINDS[end] if point == end else None), *draw(_beside())]
    if draw(st.booleans()):
        condition.reverse()
    query = _query(draw, " AND ".join(condition))
    ansi = draw(st.sampled_from([True, True, False]))
    return RandomQuery(points, intervals, query, ansi, draw(st.sampled_from(["UTC", "Europe/Berlin"])))


def _rows(
    draw: st.DrawFn, key: st.SearchStrategy[str], kinds: tuple[Kind, ...], edges: tuple[bool, ...], nulls: bool
) -> tuple[str, ...]:
    """Rows of a key and a value of each kind; ``nulls``: NULL among them, which makes a column nullable."""
    values = [_value(kind, edge, nulls) for kind, edge in zip(kinds, edges, strict=True)]
    row = st.tuples(key, *values).map(lambda r: f"({', '.join(r)})")
    return tuple(draw(st.lists(row, min_size=6, max_size=14)))


def _value(kind: Kind, edges: bool, nulls: bool) -> st.SearchStrategy[str]:
    usual = st.sampled_from(kind.values)
    rare = [st.sampled_from(kind.edges)] if edges else []
    return st.one_of(usual, usual, usual, *rare, *([st.just(f"CAST(NULL AS {kind.sql})")] if nulls else []))


def _band(draw: st.DrawFn, end: Kind | None) -> str:
    forms = [
        "p.x BETWEEN i.lo AND i.hi",
        "p.x >= i.lo AND p.x < i.hi",
        "i.lo < p.x AND i.hi >= p.x",
        "p.x > i.lo AND p.x < i.hi",
    ]
    if end is not None and end.constants:
        a, b = draw(st.sampled_from(end.constants)), draw(st.sampled_from(end.constants))
        forms += [
            f"p.x BETWEEN i.lo - {a} AND i.lo + {b}",
            f"i.lo BETWEEN p.x - {a} AND p.x + {b}",
            f"p.x > i.lo - {a} AND p.x <= i.hi + {b}",
            f"p.x >= i.lo + {a} AND i.hi - {b} > p.x",
        ]
        if "INTERVAL" not in a + b and end.sql != "DATE":
            forms += [
                f"abs(p.x - i.lo) <= {a}",
                f"abs(i.lo - p.x) < {a}",
                f"p.x - i.lo >= -{a} AND p.x - i.lo <= {b}",
                f"p.x - i.lo < {a} AND i.lo - p.x < {b}",
            ]
    return draw(st.sampled_from(forms))


def _beside() -> st.SearchStrategy[list[str]]:
    one = st.sampled_from(
        ["p.k = i.k", "p.k <=> i.k", "p.k = i.k", "p.v > 1", "i.w IS NOT NULL", "(p.z = 'a' OR p.v < 3)"]
    )
    return st.one_of(st.just([]), st.lists(one, max_size=2, unique=True))


_OF_BOTH = ("count(*)", "count(1) AS n", "count(p.v)", "count(i.w) AS c", "sum(p.v)", "sum(i.w) s", "sum(p.v * i.w)")
_OF_POINTS = ("min(p.v)", "max(p.z) AS m", "min(p.x)", "max(p.x)")
_RARE = ("avg(p.v)", "min(i.w)", "count(DISTINCT p.v)", "sum(DISTINCT i.w)", "sum(p.v + 1)", "max(i.hi)")


def _query(draw: st.DrawFn, condition: str) -> str:
    by_points = ["p.k", "p.z", "p.k, p.z", "p.x"]
    groups = draw(st.sampled_from(["", "", *by_points, "i.k", "i.lo", "i.w", "i.k"]))
    of = [*_OF_BOTH, *(_OF_POINTS if "i." not in groups else [])]
    items = draw(st.lists(st.sampled_from(of), min_size=1, max_size=4, unique=True))
    if draw(st.integers(0, 9)) == 0:
        items.append(draw(st.sampled_from(_RARE)))
    shown = [g for g in groups.split(", ") if g and draw(st.sampled_from([True, True, False]))]
    order = ["p", "i"] if draw(st.booleans()) else ["i", "p"]
    joined = draw(
        st.sampled_from([f"{order[0]} JOIN {order[1]} ON {condition}", f"{order[0]}, {order[1]} WHERE {condition}"])
    )
    query = f"SELECT {', '.join([*shown, *items])} FROM {joined}"
    if groups:
        query += f" GROUP BY {groups}"
    query += draw(st.sampled_from(["", "", "", " HAVING count(*) > 1", " HAVING sum(i.w) > 2 AND count(p.v) < 9"]))
    if groups:
        first = groups.split(", ")[0]
        tail = draw(
            st.sampled_from(["", "", f" ORDER BY count(*) DESC, {groups} LIMIT 3", " ORDER BY 1", f" ORDER BY {first}"])
        )
        query += tail if "LIMIT" not in tail or "," not in groups else ""
    wrapped = ["{}", "{}", "{}", "SELECT * FROM ({}) AS b", "WITH b AS ({}) SELECT * FROM b UNION ALL SELECT * FROM b"]
    return draw(st.sampled_from(wrapped)).format(query)
