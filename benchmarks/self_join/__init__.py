"""Benchmarks of self-joins: the optimizer compared with plain Spark, in time and in bytes read and shuffled.

    python -m benchmarks.self_join               all parts
    python -m benchmarks.self_join tpch tpcds    some of them

Each part keeps its tables in a file of its own, `results/self_join_<part>.md`.
"""
