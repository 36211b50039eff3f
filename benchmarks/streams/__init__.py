"""Benchmarks of joins of streams: state modules, Spark's own join and Flink compared in speed, state and restarts.

    python -m benchmarks.streams                 all parts
    python -m benchmarks.streams self_join band  some of them

The parts `flink` and `flink_cascade` need PyFlink in an environment of its own, whose Python `DOVETAIL_FLINK_PYTHON`
names; where there is none they are left out. Each part keeps its tables in a file of its own,
`results/streams_<part>.md`.
"""
