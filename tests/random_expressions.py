"""Random tables and random band joins over expressions: functions, casts, products, sums, calendars."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

_INTS = ("-9", "-1", "0", "1", "2", "3", "7", "40", "60")
_REALS = ("-7.5D", "-0.1D", "0D", "0.1D", "0.3D", "1.5D", "9.9D")
_STRANGE = ("'NaN'", "'Infinity'", "'-Infinity'", "'1e308'", "'-1e308'")
_DAYS = ("2024-01-31", "2024-02-28", "2024-02-29", "2024-03-09", "2024-03-10", "2024-03-31", "2024-11-03", "2011-12-30")
_CLOCKS = ("00:00:00", "00:59:59.999999", "01:30:00", "02:30:00", "23:59:59")
_MOMENTS = tuple(f"{day} {clock}" for day in _DAYS for clock in _CLOCKS)

# Ordinary values and edges of every column; edges stand on rows whose key the other table has not, or where asked for.
COLUMNS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("n", "m"), ("INT", _INTS, ("-2147483648", "2147483647"))),
    "b": ("BIGINT", _INTS, ("-9223372036854775808", "9223372036854775807")),
    **dict.fromkeys(("g", "h"), ("DOUBLE", _REALS, _STRANGE)),
    "f": ("FLOAT", _REALS, _STRANGE),
    "c": ("DECIMAL(10,2)", ("-1.25", "0", "0.01", "1.5", "7", "40"), ("99999999.99", "-99999999.99")),
    "v": ("DECIMAL(38,2)", ("-1.25", "0", "1.5", "7"), ("'" + "9" * 36 + "'",)),
    **dict.fromkeys(("d", "e"), ("DATE", tuple(f"'{d}'" for d in _DAYS), ("'0001-01-01'", "'9999-12-31'"))),
    **dict.fromkeys(
        ("t", "u"),
        ("TIMESTAMP_LTZ", tuple(f"'{m}'" for m in _MOMENTS), ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'")),
    ),
    **dict.fromkeys(
        ("z", "y"),
        ("TIMESTAMP_NTZ", tuple(f"'{m}'" for m in _MOMENTS), ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'")),
    ),
    "s": ("STRING", tuple(f"'{n}'" for n in _INTS), ("'rubbish'", "''", "'99999999999'")),
    "r": ("STRING", tuple(f"'{d}'" for d in _DAYS), ("'rubbish'", "'2024-13-01'")),
    **dict.fromkeys(
        ("l", "o"),
        (
            "INTERVAL DAY TO SECOND",
            ("'0 00:00:00'", "'0 01:00:00'", "'0 00:00:00.000001'", "'-0 00:30:00'", "'1 00:00:00'", "'32 01:00:00'"),
            ("'106751991 04:00:54.775807'", "'-106751991 04:00:54.775808'"),
        ),
    ),
}

_LENGTHS = (
    *("INTERVAL 1 MONTH", "INTERVAL '1-1' YEAR TO MONTH", "INTERVAL 1 YEAR", "INTERVAL 90 MINUTES"),
    *(
        "INTERVAL '1 02:00:00' DAY TO SECOND",
        "make_dt_interval(0, 1, 30)",
        "make_interval(0, 1, 0, 2)",
        "2 * INTERVAL '1' HOUR",
    ),
    *("INTERVAL '1 day 2 hours'", "INTERVAL 1 DAY", "INTERVAL 0 SECONDS"),
)
_ROW_LENGTHS = ("b.l", "make_dt_interval(0, 0, b.n)", "b.n * INTERVAL '1' MINUTE", "make_interval(0, 0, 0, b.n)")
_NUMBERS = (
    *(
        "{0}.n",
        "{0}.b",
        "{0}.g",
        "{0}.f",
        "{0}.c",
        "{0}.n * 2",
        "{0}.n * {0}.m",
        "{0}.b * 3",
        "{0}.g * 1.5",
        "{0}.c * 2",
    ),
    *("{0}.n + {0}.m", "{0}.g + {0}.h", "{0}.f - {0}.g", "{0}.c + {0}.n", "-{0}.n", "abs({0}.n)", "abs({0}.g)"),
    *("CAST({0}.s AS INT)", "CAST({0}.n AS BIGINT)", "CAST({0}.b AS INT)", "CAST({0}.g AS DECIMAL(10,2))", "{0}.v + 1"),
    *("TRY_CAST({0}.s AS DOUBLE)", "CAST({0}.n AS TINYINT)", "CAST({0}.c AS FLOAT)", "{0}.g / {0}.h", "{0}.n / 2"),
    *("{0}.n DIV 2", "{0}.b % 7", "round({0}.g, 1)", "round({0}.n)", "ceil({0}.c)", "floor({0}.g)", "round({0}.c, 1)"),
    *("coalesce({0}.n, {0}.m)", "greatest({0}.n, {0}.b)", "least({0}.g, {0}.h)", "nullif({0}.n, {0}.m)"),
    *("if({0}.n > 0, {0}.n, {0}.m)", "CASE WHEN {0}.s IS NULL THEN {0}.n ELSE {0}.m + 1 END", "ifnull({0}.c, {0}.c)"),
    *("try_add({0}.n, {0}.m)", "try_multiply({0}.n, {0}.m)", "try_subtract({0}.b, 3)", "day({0}.t)", "hour({0}.t)"),
    *("hour({0}.z)", "minute({0}.z)", "hour(CAST({0}.z AS TIMESTAMP))", "day(CAST({0}.t AS TIMESTAMP_NTZ))"),
    *("datediff({0}.d, {0}.e)", "unix_date({0}.d)", "year({0}.d) - 2000", "month({0}.z)", "2 * ({0}.n + {0}.m)"),
)
_SECONDS = (
    "unix_seconds({0}.t)",
    "unix_timestamp({0}.t)",
    "unix_millis({0}.t)",
    "unix_micros({0}.t)",
    "unix_timestamp({0}.d)",
    *("unix_seconds({0}.z)", "unix_timestamp({0}.z)", "to_unix_timestamp({0}.z)", "unix_micros({0}.y)"),
    *("to_unix_timestamp({0}.u)", "unix_seconds(CAST({0}.z AS TIMESTAMP))", "unix_seconds(CAST({0}.d AS TIMESTAMP))"),
    *("unix_millis(CAST({0}.t AS TIMESTAMP_NTZ))", "unix_timestamp({0}.z) + 3600", "unix_seconds({0}.t) - 3600"),
    "unix_seconds(date_trunc('hour', {0}.z))",
)
_TIMES = (
    *("{0}.t", "{0}.u", "{0}.d", "date_trunc('hour', {0}.t)", "date_trunc('month', {0}.d)", "CAST({0}.d AS TIMESTAMP)"),
    *("coalesce({0}.t, {0}.u)", "greatest({0}.t, {0}.d)", "CAST({0}.z AS TIMESTAMP)", "to_timestamp({0}.d)"),
    *("date_trunc('hour', {0}.z)", "date_trunc('day', {0}.y)", "to_timestamp({0}.z)", "CAST({0}.t AS TIMESTAMP_LTZ)"),
    *("timestamp({0}.z)", "TIMESTAMP '2024-03-10 02:30:00'", "coalesce({0}.t, CAST({0}.d AS TIMESTAMP))"),
    *("CAST(CAST({0}.d AS TIMESTAMP_NTZ) AS TIMESTAMP_LTZ)", "timestampadd(HOUR, 3, {0}.d)"),
)
_LOCALS = (
    "{0}.z",
    "{0}.y",
    "{0}.d",
    "CAST({0}.t AS TIMESTAMP_NTZ)",
    "CAST({0}.d AS TIMESTAMP_NTZ)",
    "CAST({0}.d AS TIMESTAMP)",
    "CAST({0}.t AS TIMESTAMP)",
    "coalesce({0}.z, TIMESTAMP_NTZ '2024-11-03 01:30:00')",
    "greatest({0}.z, {0}.y)",
    "{0}.t",
)
_DATES = (
    *(
        "{0}.d",
        "{0}.e",
        "to_date({0}.t)",
        "to_date({0}.z)",
        "CAST(CAST({0}.z AS TIMESTAMP) AS DATE)",
        "CAST(CAST({0}.t AS TIMESTAMP_NTZ) AS DATE)",
        "date({0}.t)",
        "CAST({0}.z AS DATE)",
        "trunc({0}.d, 'MM')",
        "last_day({0}.d)",
    ),
    *("coalesce({0}.d, {0}.e)", "CAST({0}.r AS DATE)", "to_date({0}.r)", "TRY_CAST({0}.r AS DATE)"),
)
_DATE_ENDS = (
    *(
        "{0} + 7",
        "date_add({0}, 3)",
        "date_sub({0}, 2)",
        "date_add({0}, b.n)",
        "date_sub({0}, b.n)",
        "add_months({0}, 3)",
    ),
    *(
        "{0} + INTERVAL 1 MONTH",
        "{0} + INTERVAL 1 YEAR",
        "{0} - INTERVAL 2 DAYS",
        "{0} + INTERVAL 12 HOURS",
        "{0} + b.n",
    ),
    *("{0} + 1 + INTERVAL 2 DAYS", "add_months({0}, -13)", "{0} + b.l", "timestampadd(DAY, 1, {0})", "{0}"),
)
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK")


@dataclass(frozen=True)
class RandomQuery:
    """Two tables ``a`` and ``b`` with the same columns, settings, and a query."""

    views: dict[str, str]
    query: str
    ansi: bool
    zone: str
    ntz: bool = False  # TIMESTAMP means TIMESTAMP_NTZ

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the session."""
        return {
            "spark.sql.ansi.enabled": str(self.ansi).lower(),
            "spark.sql.session.timeZone": self.zone,
            "spark.sql.timestampType": f"TIMESTAMP_{'NTZ' if self.ntz else 'LTZ'}",
        }


@st.composite
def expression_joins(draw: st.DrawFn) -> RandomQuery:
    """A band join over expressions."""
    keyed = draw(st.sampled_from([True, True, False]))
    band = draw(st.one_of(_numbers(), _times(), _dates(), _differences(), _lengths()))
    if draw(st.booleans()):
        band = band.translate(str.maketrans("ab", "ba")) if band.count("(") == 0 and "BETWEEN" in band else band
    condition = f"a.k = b.k AND {band}" if keyed else band
    kind = draw(st.sampled_from(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]))
    columns = "a.k" if "SEMI" in kind or "ANTI" in kind else "a.k, a.n, a.t, a.g, b.k, b.n, b.d, b.m"
    random = Random(draw(st.integers(0, 2**32)))  # thousands of values, which nobody needs to see shrink
    edges = keyed or draw(st.sampled_from([False, False, True]))
    return RandomQuery(
        {"a": _view("9", edges, random), "b": _view("8", edges, random)},
        f"SELECT {columns} FROM a {kind} b ON {condition}",
        draw(st.sampled_from([True, True, False])),
        draw(
            st.sampled_from(["UTC", "America/New_York", "Pacific/Apia", "Europe/Berlin", "Asia/Tokyo", "Asia/Kolkata"])
        ),
        draw(st.sampled_from([False, False, True])),
    )


def _view(lonely: str, edges: bool, random: Random) -> str:
    rows = [_row(random.choice(["1", "1", "2", "NULL"]), False, random) for _ in range(random.randint(5, 10))]
    if edges:
        rows += [_row(lonely, True, random) for _ in range(3)]
    casts = ", ".join(f"CAST({column} AS {type_}) {column}" for column, (type_, _, _) in COLUMNS.items())
    return f"SELECT k, {casts} FROM VALUES {', '.join(rows)} AS rows(k, {', '.join(COLUMNS)})"


def _row(key: str, edges: bool, random: Random) -> str:
    values = [key]
    for _, usual, strange in COLUMNS.values():
        value = random.choice([*strange, *strange, usual[0]] if edges else [*usual, "NULL"])
        values.append(value if value == "NULL" else f"'{value.strip(chr(39)).removesuffix('D')}'")
    return f"({', '.join(values)})"


@st.composite
def _between(draw: st.DrawFn, point: str, low: str, high: str) -> str:
    return draw(
        st.sampled_from(
            [
                f"{point} BETWEEN {low} AND {high}",
                f"{point} >= {low} AND {high} > {point}",
                f"{low} < {point} AND {point} <= {high}",
            ]
        )
    )


@st.composite
def _numbers(draw: st.DrawFn) -> str:
    family = draw(st.sampled_from([_NUMBERS, _NUMBERS, _NUMBERS, _SECONDS]))
    one, low, high = (draw(st.sampled_from(family)) for _ in range(3))
    one, low, high = one.format("a"), low.format("b"), high.format("b")
    form = draw(st.integers(0, 4))
    if form == 0:
        return f"abs({one} - ({low})) <= 5"
    if form == 1:
        return f"{one} - ({low}) <= 5 AND ({low}) - ({one}) <= b.n"
    if form == 2:
        return f"{one} - ({low}) >= -5 AND ({low}) - ({one}) >= -5"
    if form == 3:
        return draw(_between(one, f"{low} - 3", f"{low} + 3"))
    return draw(_between(one, low, high))


@st.composite
def _times(draw: st.DrawFn) -> str:
    family = draw(st.sampled_from([_TIMES, _TIMES, _LOCALS]))
    one, low, high = (draw(st.sampled_from(family)) for _ in range(3))
    one, low, high = one.format("a"), low.format("b"), high.format("b")
    lengths = draw(st.sampled_from([_LENGTHS, _LENGTHS, _ROW_LENGTHS]))
    first, second = draw(st.sampled_from(lengths)), draw(st.sampled_from(lengths))
    form = draw(st.integers(0, 5))
    if form == 0:
        return draw(_between(one, low, high))
    if form == 1:
        return draw(_between(one, f"{low} - {first}", f"{low} + {second}"))
    if form == 2:
        return draw(_between(f"{one} + {draw(st.sampled_from(_LENGTHS))}", low, high))
    if form == 3:
        unit = draw(st.sampled_from(_UNITS))
        return draw(_between(one, low, f"timestampadd({unit}, {draw(st.sampled_from(['2', '25', 'b.n']))}, {low})"))
    if form == 4:
        return draw(_between(one, f"{low} - {first} + {second}", f"{low} + {first} - INTERVAL 23 HOURS + {second}"))
    return draw(_between(one, low, f"{low} + {second}"))


@st.composite
def _dates(draw: st.DrawFn) -> str:
    one, low, high = (draw(st.sampled_from(_DATES)) for _ in range(3))
    one, low, high = one.format("a"), low.format("b"), high.format("b")
    one = draw(st.sampled_from([one, one, one, "a.t", "a.z"]))
    if draw(st.booleans()):
        one = draw(st.sampled_from([one, "date_add(a.d, 3)", "add_months(a.d, 1)", "a.d + a.n"]))
    first, second = draw(st.sampled_from(_DATE_ENDS)), draw(st.sampled_from(_DATE_ENDS))
    return draw(_between(one, draw(st.sampled_from([low, first.format(low)])), second.format(high)))


@st.composite
def _differences(draw: st.DrawFn) -> str:
    one, other = draw(
        st.sampled_from(
            [("a.t", "b.t"), ("a.d", "b.d"), ("a.t", "b.d"), ("a.z", "b.z"), ("a.z", "b.t"), ("a.z", "b.d")]
        )
    )
    length = draw(
        st.sampled_from(["INTERVAL 10 MINUTES", "INTERVAL 36 HOURS", "INTERVAL 1 DAY", "INTERVAL 0 SECONDS", "b.l"])
    )
    count = draw(st.sampled_from(["0", "1", "3", "90"]))
    unit = draw(st.sampled_from(_UNITS))
    return draw(
        st.sampled_from(
            [
                f"{one} - {other} <= {length} AND {other} - {one} <= {length}",
                f"{one} - {other} >= INTERVAL 0 SECONDS AND {one} - {other} < {length}",
                f"timestampdiff({unit}, {one}, {other}) BETWEEN -{count} AND {count}",
                f"abs(timestampdiff({unit}, {one}, {other})) <= {count}",
                f"datediff({unit}, {one}, {other}) BETWEEN 0 AND {count}",
                f"datediff({one}, {other}) BETWEEN -3 AND {count}",
                f"datediff({one}, {other}) BETWEEN b.n AND b.m",
                f"abs(unix_timestamp({one}) - unix_timestamp({other})) <= 600",
                "a.t - a.u BETWEEN b.l AND b.o",
            ]
        )
    )


@st.composite
def _lengths(draw: st.DrawFn) -> str:
    return draw(
        _between(
            "a.l",
            draw(st.sampled_from(["b.l", "b.l - INTERVAL 1 HOUR"])),
            draw(st.sampled_from(["b.o", "b.l + INTERVAL 30 MINUTES"])),
        )
    )
