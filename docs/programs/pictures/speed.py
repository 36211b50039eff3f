"""Charts of what ``benchmarks/results`` has measured."""

from __future__ import annotations

from docs.programs.charts import Bar, Series, bars, lines
from docs.programs.results import number, rows
from docs.programs.svg import Drawing

_JOIN = "|a.x − b.x| ≤ 250"


def time_and_rows() -> Drawing:
    """Time against rows of a join by a distance: plain Spark, bins by hand, Dovetail, DuckDB."""
    plain = [(2 * number(row[0]), number(row[3])) for row in rows("band_join_plain", _JOIN)[:3]]
    small = [(2 * number(row[0]), number(row[2])) for row in rows("band_join_plain", _JOIN)[:3]]
    grown = [(number(row[1]), number(row[3])) for row in rows("band_join_growth", "Exponent") if row[0] == _JOIN]
    hand = [(number(row[1]), number(row[3])) for row in rows("band_join_hand", "Target") if row[0] == _JOIN]
    duck = [(number(row[1]), number(row[5])) for row in rows("band_join_duckdb", "Seconds") if row[0] == _JOIN]
    (count, seconds), last = plain[-1], 1_000_000
    return lines(
        "A join by a distance: time against rows",
        f"Both axes are logarithmic. Plain Spark takes {seconds:g} s for {count:,.0f} rows and grows with the square. "
        f"Dovetail takes {grown[-1][1]:g} s for {grown[-1][0]:,.0f} rows.",
        "rows of both sides together",
        "seconds, from the SQL text to the answer, on 2 cores; both axes are logarithmic",
        [
            Series("plain Spark", tuple(plain), "b", ((last, seconds * (last / count) ** 2),)),
            Series("Dovetail", (*small[:2], *grown), "a", shift=-8),
            Series("bins by hand", tuple(hand), "d", shift=30, is_left=True),
            Series("DuckDB", tuple(duck), "c", shift=12),
        ],
        [
            "|a.x − b.x| ≤ 250 without an equality. The dashed part is extrapolated with the square of the rows.",
            "Four tables, each a run of its own: compare how the lines grow; ratios are in each table.",
            "benchmarks/results: band_join_plain, _growth, _hand (the best of 12 ways), _duckdb; Spark 4.3, DuckDB 1.5",
        ],
    )


def tpc() -> Drawing:
    """How much faster the queries of TPC-H and TPC-DS are that are rewritten."""
    found = []
    for name, suite, letters in (("self_join_tpch", "TPC-H", "h"), ("self_join_tpcds", "TPC-DS", "ds")):
        table = rows(name, "Rewritten queries at scale 1")
        found += [
            Bar(
                f"{suite} {int(row[0].removeprefix(letters))}",
                number(row[3]),
                letters[0].replace("h", "b").replace("d", "a"),
            )
            for row in table
        ]
        found.append(Bar("", 0))
    return bars(
        "TPC-H and TPC-DS: the queries that are rewritten",
        found,
        "×",
        [
            "Plain Spark's time by Dovetail's, planning included, scale 1, 2 cores. The dashed line is plain Spark.",
            "The other 19 of 22 and 89 of 99 run as written. benchmarks/results: self_join_tpch, self_join_tpcds",
        ],
        mark=1,
        unit_in_words=" times as fast",
    )


def refresh() -> Drawing:
    """Refreshing a view, by recomputing it, at two scales."""
    table = {row[0]: row[3] for row in rows("streams_materialized", "Refresh and look") if row[0].endswith(", changes")}
    found = []
    for query, larger in _AT_SCALE_4.items():
        small = number(table[f"{query}, changes"].partition("=")[2])
        found += [Bar(f"{query}, scale 1", small, "b"), Bar(f"{query}, scale 4", larger, "a"), Bar("", 0)]
    return bars(
        "A refresh after 1 % of changes, by recomputing",
        found,
        "",
        [
            "Seconds of a refresh and a look at the view, by the seconds of plain Spark for the query; less is better.",
            "Left of the dashed line a refresh is faster. It has a fixed part of about two seconds, which weighs less",
            "with larger tables. benchmarks/results: streams_materialized; scale 4: reference of materialized views",
        ],
        mark=1,
    )


_AT_SCALE_4 = {"Q3": 0.92, "Q5": 0.65, "Q10": 1.41}  # docs/reference/materialized-views.md, "What it costs"


def nearest() -> Drawing:
    """The last row before each time: Dovetail, the union by hand, DuckDB and Polars."""
    row = rows("nearest", "1,000 keys")[0]
    names = (
        ("Dovetail", 1, "a"),
        ("a union by hand in Spark", 2, "d"),
        ("DuckDB, in memory", 4, "c"),
        ("Polars, in memory", 6, "c"),
    )
    found = [Bar(name, number(row[column]), color) for name, column, color in names]
    return bars(
        "The last row before each time, 2,000,000 × 2,000,000 rows",
        found,
        " s",
        ["1,000 keys of even frequency, 2 cores. benchmarks/results: nearest"],
    )


def streams() -> Drawing:
    """A stream that is joined with itself: seconds of the whole run, and of the best that Spark can be set to."""
    found = []
    for row in rows("streams_self_join", "8 epochs"):
        found.append(Bar(f"{row[0]}: Dovetail", number(row[1]), "a"))
        found.append(Bar(row[3], number(row[2]), "b"))
        found.append(Bar("", 0))
    return bars(
        "A stream joined with itself by a key and a second",
        found[:-1],
        " s",
        ["Seconds of eight epochs, 2 cores; rows of one epoch. benchmarks/results: streams_self_join"],
    )
