"""Random tables and random band joins: every type, every spelling, the values that break bins."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Kind:
    """A type with its values as SQL: ordinary ones close together, and edges; and constants to add."""

    sql: str
    values: tuple[str, ...]
    edges: tuple[str, ...]
    constants: tuple[str, ...] = ()


def _integers(name: str, low: int, high: int) -> Kind:
    values = tuple(f"CAST({n} AS {name})" for n in (-9, -5, -3, -1, 0, 1, 2, 3, 5, 8, 13, 40, 100))
    edges = tuple(f"CAST({n} AS {name})" for n in (low, low + 1, high - 1, high))
    return Kind(name, values, edges, ("0", "1", "3", "7", "50", "2.5"))


def _reals(name: str) -> Kind:
    values = tuple(f"CAST({n} AS {name})" for n in (-7.5, -1.1, -0.1, 0, 0.1, 0.2, 0.3, 1.5, 2.7, 9.9, 1e3))
    edges = tuple(
        f"CAST('{n}' AS {name})" for n in ("NaN", "Infinity", "-Infinity", "3e38", "-3e38", "1e-30", "-0.0", "1e15")
    )
    return Kind(name, values, edges, ("0", "1", "0.1", "2.5", "3e0", "1e6"))


def _times(name: str) -> Kind:
    days = ("2024-03-30", "2024-03-31", "2024-11-03", "1969-12-31", "2011-12-30")
    clocks = ("00:00:00", "01:59:59.999999", "02:30:00", "23:59:59")
    values = tuple(f"{name} '{day} {clock}'" for day in days for clock in clocks)
    edges = tuple(
        f"{name} '{text}'" for text in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1900-01-01 00:00:00")
    )
    constants = (
        "INTERVAL 10 MINUTES",
        "INTERVAL '1' HOUR",
        "INTERVAL '0 00:00:01.5' DAY TO SECOND",
        "INTERVAL 1 DAY",
        "INTERVAL 36 HOURS",
        "INTERVAL 0 SECONDS",
    )
    return Kind(name, values, edges, constants)


_DATES = tuple(f"DATE '2024-0{m}-{d}'" for m in (1, 2, 3) for d in ("01", "02", "15", "28"))

KINDS = {
    "tinyint": _integers("TINYINT", -128, 127),
    "smallint": _integers("SMALLINT", -(2**15), 2**15 - 1),
    "int": _integers("INT", -(2**31), 2**31 - 1),
    "bigint": _integers("BIGINT", -(2**63), 2**63 - 1),
    "float": _reals("FLOAT"),
    "double": _reals("DOUBLE"),
    "decimal": Kind(
        "DECIMAL(12,3)",
        tuple(f"CAST({n} AS DECIMAL(12,3))" for n in (-7.125, -0.001, 0, 0.001, 0.5, 1.5, 2.75, 40, 99.999)),
        tuple(f"CAST('{n}' AS DECIMAL(12,3))" for n in ("999999999.999", "-999999999.999")),
        ("0", "0.001", "0.5", "3", "10.25"),
    ),
    "wide": Kind(
        "DECIMAL(38,4)",
        tuple(f"CAST({n} AS DECIMAL(38,4))" for n in (-1, 0, 0.0001, 0.5, 7, 7.25)),
        tuple(f"CAST('{n}' AS DECIMAL(38,4))" for n in ("9" * 34, "-" + "9" * 34, "9" * 20)),
    ),
    "date": Kind("DATE", _DATES, ("DATE '0001-01-01'", "DATE '9999-12-31'"), ("0", "1", "7", "INTERVAL 3 DAYS")),
    "timestamp": _times("TIMESTAMP"),
    "timestamp_ntz": _times("TIMESTAMP_NTZ"),
}
MIXED = (
    ("int", "bigint"),
    ("bigint", "int"),
    ("smallint", "double"),
    ("bigint", "double"),
    ("float", "double"),
    ("double", "decimal"),
    ("int", "decimal"),
    ("int", "float"),
    ("date", "timestamp"),
    ("timestamp", "date"),
)


KEYS = (
    ("INT", "INT"),
    ("INT", "BIGINT"),
    ("BIGINT", "TINYINT"),
    ("STRING", "STRING"),
    ("STRING", "INT"),
    ("STRING COLLATE UTF8_LCASE", "STRING COLLATE UTF8_LCASE"),
    ("DECIMAL(5,1)", "DECIMAL(5,1)"),
    ("DECIMAL(5,1)", "INT"),
    ("DOUBLE", "DOUBLE"),
    ("DOUBLE", "INT"),
)


# Keys beside a band, of each type that a rule asks about: rules take none of the last three.
KEY_KINDS = (
    Kind("INT", ("1", "2"), ()),
    Kind("DECIMAL(5,2)", ("CAST(1.10 AS DECIMAL(5,2))", "CAST(2 AS DECIMAL(5,2))"), ()),
    Kind("BOOLEAN", ("TRUE", "FALSE"), ()),
    Kind("STRING", ("'a'", "'A'"), ()),
    Kind("DATE", ("DATE'2026-03-29'", "DATE'9999-12-31'"), ()),
    Kind("TIMESTAMP", ("TIMESTAMP'2026-10-25 00:30:00Z'", "TIMESTAMP'2026-10-25 01:30:00Z'"), ()),
    Kind("TIMESTAMP_NTZ", ("TIMESTAMP_NTZ'2026-03-29 02:30:00'", "TIMESTAMP_NTZ'2026-03-29 03:30:00'"), ()),
    Kind("BINARY", ("X'61'", "X'41'"), ()),
    Kind("STRING COLLATE UTF8_LCASE", ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"), ()),
    Kind("DOUBLE", ("0D", "CAST('-0' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"), ()),
)


def key_kind(draw: st.DrawFn) -> Kind:
    """The type of a key: whole numbers every other time, and seldom one that no rule takes."""
    exact, other = KEY_KINDS[:7], KEY_KINDS[7:]
    kind: Kind = draw(st.sampled_from((KEY_KINDS[0],) * 20 + exact * 3 + other))
    return kind


def key_values(kind: Kind, nulls: bool) -> st.SearchStrategy[str]:
    """The values of a key, NULL among them if ``nulls``."""
    return st.sampled_from([*kind.values, *([f"CAST(NULL AS {kind.sql})"] if nulls else [])])


@dataclass(frozen=True)
class RandomQuery:
    """Two tables as VALUES lists, settings, and a query over ``p(k, x, z, v)`` and ``i(k, lo, hi, w)``."""

    points: tuple[str, ...]
    intervals: tuple[str, ...]
    query: str
    ansi: bool
    zone: str
    commas_last: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the session."""
        return {
            "spark.sql.ansi.enabled": str(self.ansi).lower(),
            "spark.sql.ansi.relationPrecedence": str(self.commas_last).lower(),
            "spark.sql.session.timeZone": self.zone,
        }

    @property
    def views(self) -> dict[str, str]:
        """The queries of the two views."""
        return {
            "p": f"SELECT * FROM VALUES {', '.join(self.points)} AS t(k, x, z, v)",
            "i": f"SELECT * FROM VALUES {', '.join(self.intervals)} AS t(k, lo, hi, w)",
        }


@st.composite
def band_joins(draw: st.DrawFn, *, keyed: bool = False) -> RandomQuery:
    """A band join of any accepted form over random tables, now and then one that must be left alone.

    ``keyed``: with an equality always.
    """
    names = draw(st.one_of(st.sampled_from([(n, n) for n in KINDS]), st.sampled_from(MIXED)))
    point, end = KINDS[names[0]], KINDS[names[1]]
    shape = draw(st.sampled_from(["distance", "interval", "interval", "overlap", "overlap", "several"]))
    arithmetic = bool(end.constants) and names[0] == names[1]
    if shape != "distance":
        arithmetic = arithmetic and draw(st.sampled_from([False, False, True]))
    if shape == "distance" and arithmetic:
        bands = [_constant_band(draw, end)]
    elif shape == "several":
        further = [_overlap(draw, end, False), "p.v + 1 > i.w AND p.v < i.w + 2"]
        bands = [_interval_band(draw, end, False), draw(st.sampled_from(further))]
    else:
        bands = [(_overlap if shape == "overlap" else _interval_band)(draw, end, arithmetic)]
        if draw(st.sampled_from([False, False, True])):
            bands = [_with_nulls(draw, bands[0])]
    condition = [*bands, *dict.fromkeys([*draw(_extras()), *(["p.k = i.k"] if keyed else [])])]
    if draw(st.booleans()):
        condition.reverse()
    # Sums of the greatest integers overflow in the query itself; leave some of those in.
    integral = names[1] in ("tinyint", "smallint", "int", "bigint")
    edges = not (arithmetic and integral) or draw(st.sampled_from([False, False, False, True]))
    keys = draw(st.sampled_from(KEYS))
    return RandomQuery(
        tuple(draw(st.lists(_row(keys[0], point, edges), min_size=8, max_size=16))),
        tuple(draw(st.lists(_row(keys[1], end, edges), min_size=8, max_size=16))),
        draw(_query(" AND ".join(condition))),
        draw(st.sampled_from([True, True, False])),
        draw(st.sampled_from(["UTC", "America/New_York", "Pacific/Apia", "Europe/Berlin"])),
        draw(st.sampled_from([False, False, True])),
    )


def _row(key_type: str, kind: Kind, edges: bool) -> st.SearchStrategy[str]:
    null = st.just(f"CAST(NULL AS {kind.sql})")
    usual = st.sampled_from(kind.values)
    value = st.one_of(usual, usual, usual, st.sampled_from(kind.edges) if edges else usual, null)
    keys: tuple[str, ...] = ("'1'", "'2'") if "COLLATE" not in key_type else ("'a'", "'A'", "'b'")
    if key_type == "DOUBLE":
        keys = ("0.0", "'-0.0'", "'NaN'", "1")
    key = st.sampled_from([f"CAST({value} AS {key_type})" for value in (*keys, "NULL")])
    extra = st.sampled_from(["1", "2", "3"])
    return st.tuples(key, value, value, extra).map(lambda row: f"({', '.join(row)})")


def _constant_band(draw: st.DrawFn, end: Kind) -> str:
    a, b = draw(st.sampled_from(end.constants)), draw(st.sampled_from(end.constants))
    forms = [
        f"p.x BETWEEN i.lo - {a} AND i.lo + {b}",
        f"p.x BETWEEN i.lo + {a} AND i.lo + {b}",
        f"p.x BETWEEN i.lo - {a} AND i.lo - {b}",
        f"i.lo BETWEEN p.x - {a} AND p.x + {b}",
        f"p.x >= i.lo - {a} AND i.lo + {b} > p.x",
        f"i.lo < p.x + {a} AND p.x <= i.lo + {b}",
    ]
    # date_sub and friends aside, Spark subtracts times into intervals, which compare with intervals only.
    difference = [
        f"p.x - i.lo >= -{a} AND p.x - i.lo <= {b}",
        f"abs(p.x - i.lo) <= {a}",
        f"p.x - i.lo <= {a} AND i.lo - p.x < {b}",
        f"abs(i.lo - p.x) < {a}",
    ]
    times = "INTERVAL" in a or "INTERVAL" in b
    return draw(st.sampled_from(forms if times or end.sql == "DATE" else forms + difference))


def _interval_band(draw: st.DrawFn, end: Kind, offsets: bool) -> str:
    low, high = "i.lo", "i.hi"
    if offsets:
        a, b = draw(st.sampled_from(end.constants)), draw(st.sampled_from(end.constants))
        low = draw(st.sampled_from([low, f"i.lo - {a}", f"i.lo + {a}"]))
        high = draw(st.sampled_from([high, f"i.hi + {b}", f"i.hi - {b}"]))
        if "INTERVAL" not in a + b and end.sql != "DATE" and draw(st.booleans()):  # numbers: a start and a length
            lengths = (
                "p.x BETWEEN i.lo AND i.lo + i.hi",
                f"p.x >= i.lo - i.hi - {a} AND p.x < i.lo + i.hi",
                "i.lo - p.x <= i.hi AND p.x <= i.hi",
                f"abs(p.x - i.lo) <= i.hi + {b}",
            )
            return draw(st.sampled_from(lengths))
    return draw(
        st.sampled_from(
            [
                f"p.x BETWEEN {low} AND {high}",
                f"p.x >= {low} AND p.x < {high}",
                f"{low} < p.x AND {high} >= p.x",
                f"p.x > {low} AND p.x < {high}",
                f"{high} > p.x AND p.x >= {low}",
                f"p.x BETWEEN coalesce({low}, i.hi) AND {high}" if not offsets else f"p.x BETWEEN {low} AND {high}",
            ]
        )
    )


def _overlap(draw: st.DrawFn, end: Kind, offsets: bool) -> str:
    """Intervals of both sides that overlap, lie in each other, or nearly so."""
    low, high, first, last = "i.lo", "i.hi", "p.x", "p.z"
    if offsets:
        a, b = draw(st.sampled_from(end.constants)), draw(st.sampled_from(end.constants))
        high = draw(st.sampled_from([high, f"i.hi + {a}", f"i.hi - {b}"]))
        last = draw(st.sampled_from([last, f"p.z + {b}", f"p.z - {a}"]))
    return draw(
        st.sampled_from(
            [
                f"{first} <= {high} AND {low} <= {last}",
                f"{first} < {high} AND {low} < {last}",
                f"{last} >= {low} AND {high} > {first}",
                f"{first} >= {low} AND {last} <= {high}",
                f"{low} < {first} AND {high} > {last}",
                f"{low} >= {first} AND {high} <= {last}",
            ]
        )
    )


def _with_nulls(draw: st.DrawFn, band: str) -> str:
    """A band of which NULL passes some comparisons: one of their columns is tested beside them."""
    found = []
    for comparison in [band] if "BETWEEN" in band else band.split(" AND "):
        column = draw(st.sampled_from(re.findall(r"\b[pi]\.\w+", comparison)))
        with_default = re.sub(r"^(\S+) (<=?|>=?) (\S+)$", r"\1 \2 coalesce(\3, \1)", comparison)
        or_null = (f"({comparison} OR {column} IS NULL)", f"(isnull({column}) OR ({comparison}))")
        found.append(draw(st.sampled_from((comparison, *or_null, with_default))))
    return " AND ".join(found)


def _extras() -> st.SearchStrategy[list[str]]:
    one = st.sampled_from(["p.k = i.k", "p.k <=> i.k", "p.v <> i.w", "(p.v > 1 OR i.w < 3)", "p.v + i.w < 5"])
    return st.one_of(st.just([]), st.lists(one, max_size=2, unique=True))


def _query(condition: str) -> st.SearchStrategy[str]:
    plain = [
        f"SELECT p.*, i.* FROM p JOIN i ON {condition}",
        f"SELECT * FROM p INNER JOIN i ON {condition}",
        f"SELECT * FROM i JOIN p ON {condition}",
        f"SELECT * FROM p, i WHERE {condition}",
    ]
    kinds = [
        f"SELECT * FROM {one} {kind} JOIN {other} ON {condition}"
        for kind in ("LEFT", "RIGHT OUTER", "FULL", "FULL", "LEFT SEMI", "ANTI")
        for one, other in (("p", "i"), ("i", "p"))
    ]
    around = [
        f"SELECT p.x, i.lo, i.hi FROM i, p WHERE {condition} ORDER BY 1, 2, 3",
        f"SELECT p.k, count(*) n, sum(i.w) FROM p JOIN i ON {condition} GROUP BY p.k HAVING count(*) > 0",
        f"WITH p AS (SELECT * FROM p WHERE v < 3), i AS (SELECT * FROM i) SELECT p.x, i.w FROM p JOIN i ON {condition}",
        f"SELECT * FROM (SELECT k, x, z, v FROM p) p JOIN (SELECT * FROM i WHERE w > 1) AS i ON {condition}",
        f"SELECT i.w, p2.v FROM p JOIN i ON {condition} JOIN p AS p2 ON p2.v = i.w",
        f"SELECT i.w, p2.v FROM p p2, p, i WHERE p2.k = p.k AND {condition}",
        *(f"SELECT p2.k, p.x, i.w FROM p p2, p {kind} JOIN i ON {condition}" for kind in ("LEFT", "RIGHT", "FULL", "")),
        f"SELECT p.x, j.w FROM p, i j LEFT JOIN p p2 ON p2.v = j.w, i WHERE {condition} AND p.k = j.k",
        f"SELECT * FROM p LEFT JOIN (SELECT i.k, p.v FROM p JOIN i ON {condition}) b ON b.v = p.v",
        f"SELECT * FROM p JOIN i ON {condition} LEFT JOIN i AS j ON p.x BETWEEN j.lo AND j.hi",
        f"SELECT i.w, p2.v FROM p FULL JOIN i ON {condition} LEFT JOIN p AS p2 ON p2.x BETWEEN i.lo AND i.hi",
        f"SELECT v FROM p WHERE v IN (SELECT i.w FROM p JOIN i ON {condition})",
        f"SELECT p.v FROM p JOIN i ON {condition} UNION ALL SELECT v FROM p",
        f"SELECT p.v FROM p LEFT JOIN i ON {condition} WHERE i.w IS NULL",
        f"SELECT * FROM (SELECT k, min(x) x, max(z) z, max(v) v FROM p GROUP BY k) p FULL JOIN i ON {condition}",
        f"SELECT DISTINCT p.v, row_number() OVER (PARTITION BY p.v ORDER BY i.w, p.x) r FROM p JOIN i ON {condition}",
    ]
    return st.one_of(st.sampled_from(plain), st.sampled_from(kinds), st.sampled_from(kinds), st.sampled_from(around))
