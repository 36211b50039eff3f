"""The examples with joins of streams, and the one with a band join in a batch, on the suite's session."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "stream_payments",
            ["alice|  Rome|   Madrid|    1|     4|    4.5", "alice|Madrid|     Rome|    4|     6|    1.5"],
        ),
        (
            "stream_clicks",
            [
                "1|2024-05-01 10:00:04| home",
                "1|2024-05-01 10:00:04|shoes",
                "2|2024-05-01 10:00:30| NULL",
                "3|2024-05-01 10:01:02| hats",
            ],
        ),
        (
            "materialize_orders",
            [
                "nora|1|10.00",
                "simon|1|7.50",
                "nora|2|12.50",
                "simon|1|7.50",
                "nora|3|20.00",
                "simon|1|99.00",
                "nora|3|20.00",
            ],
        ),
    ],
)
def test_an_example(spark: SparkSession, capfd: pytest.CaptureFixture[str], name: str, rows: list[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capfd.readouterr().out
    assert said.startswith("Epoch\n")
    shown = [line for line in said.splitlines() if re.match(r"\|.*\d", line)]
    assert [line.strip("|").replace(" ", "") for line in shown] == [row.replace(" ", "") for row in rows]


def test_the_example_of_a_band_join(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "band_join.py"), run_name="__main__")
    said = capfd.readouterr().out
    assert "LevelBandJoin" in said
    assert "same: 3 rows both ways" in said.splitlines()[-1]
    counts = re.findall(r"\| +(\d)\| +(\d+)\|", said)
    assert counts == [("0", "85657"), ("1", "85943"), ("2", "86229")]
