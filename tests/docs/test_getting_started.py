"""The program of docs/getting-started.md runs as it stands, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "getting-started.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", _Builder(spark.newSession()))
    program = "\n".join(text for language, text in BLOCKS if language == "python")
    program = program.replace("data/", f"{tmp_path}/data/")  # the JVM has a folder of its own
    exec(compile(program, "docs/getting-started.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = [text for language, text in BLOCKS if not language and "%%dovetail" not in text]
    assert len(shown) == 3
    for text in shown:
        assert text in printed
    assert "same: 3 rows both ways" in printed


class _Builder:
    """Returns the session of the tests, whatever is configured."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def master(self, _: str) -> _Builder:
        return self

    def config(self, *_: Any) -> _Builder:
        return self

    def getOrCreate(self) -> Any:  # noqa: N802
        return self.session
