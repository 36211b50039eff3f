"""Benchmarks of band joins: the optimizer compared with plain Spark, manual bins, DuckDB and Polars; time and memory.

    python -m benchmarks.band_join                  all parts
    python -m benchmarks.band_join hand growth      some of them: hand, plain, shapes, duckdb, growth, memory
    python -m benchmarks.band_join plain --long     also what plain Spark or DuckDB take minutes for

Each part keeps its tables in a file of its own, `results/band_join_<part>.md`.
"""
