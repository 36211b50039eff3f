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


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("band-joins", "LevelBandJoin  inner, e.ts between"),
        ("key-joins", "2 keys for a row of the left side"),
        ("nearest", ""),
    ],
)
def test_a_page_to_follow_runs_from_a_fresh_shell(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, shown: str
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", _Builder(spark.newSession()))
    page = (Path(__file__).parents[2] / "docs" / f"{name}.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for text in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(text, f"docs/{name}.md", "exec"), names)
    printed = capsys.readouterr().out
    assert shown in printed
    for query in re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if name == "nearest" else ():
        if "…" not in query:
            for statement in query.rstrip().split(";\n"):
                assert names["opt"].sql(statement).columns


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
