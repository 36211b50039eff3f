"""Benchmark programs, run from the root of the repository; each prints a table and writes it to `results/`.

    python -m benchmarks.planning     time the optimizer adds before Spark sees a query, TPC-H and TPC-DS
    python -m benchmarks.again        a statement that comes again, beyond what Spark takes to analyze it
    python -m benchmarks.tpch         TPC-H SF 1 through the optimizer ÷ plain Spark
    python -m benchmarks.band_join    band joins beside plain Spark, bins by hand, DuckDB and Polars; growth and memory
    python -m benchmarks.self_join    self-joins beside plain Spark: TPC, each rewriting, bytes read and shuffled
    python -m benchmarks.small_gains  joins that plain Spark plans well: is any of them slower?
    python -m benchmarks.streams      joins of streams beside Spark's own and Apache Flink: speed, state, restarts
    python -m benchmarks              all of them

`--quick` shows on small data, in a minute or so, that a program works; its figures mean little.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # where helpers of the tests find each other, as in pytest
