"""The matrix of docs/coverage.md: how many of its joins are rewritten."""

from __future__ import annotations

from collections import Counter

from docs.programs.join_shapes import KINDS, SHAPES, plans
from matrix_counts import matrix_counts

counts = matrix_counts("shapes and kinds of join")


def test_the_joins_that_are_rewritten(counts: Counter[str]) -> None:
    for plan in plans().values():
        assert plan.rewritten or plan.declined, f"no reason: {plan.query}"
        counts["rewritten" if plan.rewritten else "left to Spark"] += 1
    assert counts["rewritten"] == len(SHAPES) * len(KINDS)
