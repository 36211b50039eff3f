"""Self-joins: the optimizer beside plain Spark, and how much less is read and shuffled.

    python -m benchmarks.self_join               all parts
    python -m benchmarks.self_join tpch tpcds    some of them

Each part keeps its tables in a file of its own, `results/self_join_<part>.md`.
"""
