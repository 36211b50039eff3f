"""Self-joins that stay joins: one scan and one exchange for all sides, in two manual forms, ÷ the plan of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import harness
from benchmarks.metrics import measured, mebibytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.self_join.bench import Bench

TITLE = "what stays a join: one scan and one exchange by hand ÷ plain Spark"
COLUMNS = ("self-join", "form", "seconds", "faster", "MiB read", "MiB shuffled", "scans", "exchanges")

# The rows that all sides of a self-join share.  Spark inlines a CTE unless it is not deterministic; and it adds a
# round-robin exchange of its own unless the CTE ends in a repartition.
SHARED = "WITH c AS (SELECT {columns} FROM (SELECT * FROM (SELECT * FROM t{where}) WHERE rand() >= 0) DISTRIBUTE BY k) "

# Always true, and Spark does not know: every column that is named is needed on its side.
ALIGNED = "hash({columns}) >= -2147483648"


@dataclass(frozen=True)
class Case:
    """A self-join of `t`: as written, the columns that its sides need together, and the filter that they share.

    ``needed`` are, for the ON of each join, the columns that another side needs and this one does not.  ``lists`` is
    the same without a join: the rows of a key as an array that is exploded for each side.
    """

    title: str
    written: str
    columns: str
    needed: tuple[str, ...] = ()
    where: str = ""
    lists: str = ""

    @property
    def forms(self) -> dict[str, str]:
        """The texts to run."""
        shared = SHARED.format(columns=self.columns, where=self.where) + self.written.replace(" t ", " c ")
        found = {"plain": self.written, "shared": shared}
        if self.needed:
            head, *joins = self.written.split(" ON ")
            found["aligned"] = head + "".join(
                f" ON {ALIGNED.format(columns=columns)} AND {join}"
                for join, columns in zip(joins, self.needed, strict=True)
            )
        if self.lists:
            found["lists"] = self.lists
            found |= {f"{name}, hash join": hashed(found[name]) for name in ("plain", "shared", "aligned")}
        return found


def hashed(text: str) -> str:
    """The same with a hint that spares both sorts of a join of two."""
    return text.replace("SELECT count", "SELECT /*+ SHUFFLE_HASH(y) */ count", 1)


_SUMS = "SELECT count(*), sum(x.a * y.b), sum(length(x.s)) FROM t x JOIN t y ON x.k = y.k"

CASES = (
    Case("same columns", "SELECT count(*), sum(x.v * y.v) FROM t x JOIN t y ON x.k = y.k", "k, v"),
    Case(
        "other columns",
        _SUMS,
        "k, a, b, s",
        ("x.b, y.a, y.s",),
        lists="SELECT count(*), sum(x.a * y.b), sum(length(x.s)) FROM (SELECT k, collect_list(struct(a, b, s)) AS g "
        "FROM t WHERE k IS NOT NULL GROUP BY k) LATERAL VIEW explode(g) AS x LATERAL VIEW explode(g) AS y",
    ),
    Case(
        "pairs, all columns of one side",
        "SELECT count(*), sum(hash(x.*)), sum(y.w) FROM t x JOIN t y ON x.k = y.k AND x.pk < y.pk",
        "*",
        ("y.v, y.a, y.b, y.s",),
    ),
    Case(
        "equal filters, half the rows",
        f"{_SUMS} WHERE x.v > 0 AND y.v > 0",
        "k, v, a, b, s",
        ("x.b, y.a, y.s",),
        " WHERE v > 0",
    ),
    Case("a tenth of the rows on one side", f"{_SUMS} WHERE y.v > 800", "k, v, a, b, s"),
    Case("disjoint filters, half the rows", f"{_SUMS} WHERE x.v > 0 AND y.v < 0", "k, v, a, b, s"),
    Case(
        "three sides",
        "SELECT count(*), sum(x.a * y.b * z.v), sum(length(x.s)) FROM t x JOIN t y ON x.k = y.k JOIN t z ON x.k = z.k",
        "k, a, b, s, v",
        ("x.b, x.v, y.a, y.s, y.v", "z.a, z.b, z.s, x.k"),
    ),
)


def measure(bench: Bench, cases: tuple[Case, ...] = CASES, rows: int = 4_000_000) -> None:
    """One table."""
    rows = min(rows, 200_000) if bench.quick else rows
    bench.table(
        "t",
        f"SELECT id AS pk, hash(id) % {rows // 4} AS k, CAST(hash(id, 1) % 1000 AS INT) AS v, "
        "abs(CAST(hash(id, 2) AS DOUBLE)) / 7 AS w, CAST(hash(id, 3) % 1000 AS BIGINT) AS a, "
        f"CAST(hash(id, 4) % 1000 AS BIGINT) AS b, concat('s', abs(hash(id, 5))) AS s FROM range({rows})",
    )
    lines = [line for case in cases for line in measure_case(bench, case)]
    bench.report.table(f"{rows:,} rows, three partners to a row", COLUMNS, lines)
    bench.report.note(
        f"{harness.medians(2 if not bench.quick else 1)} after a warm-up, all forms in turn; all give the same answer, "
        "but for the last digits of floating sums. No side can be broadcast. “shared” is a CTE that is not "
        "deterministic and ends in DISTRIBUTE BY k: Spark reads and exchanges it once for all sides. “aligned” adds "
        "a condition that is always true and names the columns which only the other side needs: both sides are alike "
        "then, and Spark reuses the exchange. “lists” collects the rows of a key into an array and explodes it for "
        "each side."
    )


def measure_case(bench: Bench, case: Case) -> list[tuple[str, ...]]:
    """A line for each form."""
    spark = bench.spark
    forms: dict[str, Callable[[], object]] = {
        name: lambda text=text: harness.run(spark.sql(text))  # type: ignore[misc]
        for name, text in case.forms.items()
    }
    answers = {tuple(spark.sql(text).collect()[0][:2]) for text in case.forms.values()}
    if len(answers) != 1:
        raise ValueError(f"{case.title}: more than one answer, {answers}")
    times = {
        name: median(found) for name, found in harness.in_turn(forms, warm_up=0, rounds=1 if bench.quick else 2).items()
    }
    lines: list[tuple[str, ...]] = []
    for name, work in forms.items():
        counted = measured(spark, work)
        faster = f"{times['plain'] / times[name]:.2f}×"
        sizes = (mebibytes(counted.read), mebibytes(counted.shuffled))
        lines.append(
            (case.title, name, f"{times[name]:.2f} s", faster, *sizes, str(counted.scans), str(counted.exchanges))
        )
        harness.console.print(*lines[-1], highlight=False)
    return lines
