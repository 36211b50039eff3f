"""Joins of streams on state modules beside Spark's own stream-stream join: speed, state, growth, restarts.

    python -m benchmarks.streams                 all parts
    python -m benchmarks.streams self_join band  some of them

Each part keeps its tables in a file of its own, `results/streams_<part>.md`.
"""
