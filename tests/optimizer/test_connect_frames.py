"""DataFrames of Spark Connect: the same rows, columns and types, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from effort import SEED, examples

PROGRAM = Path(__file__).parents[1] / "connect_frames_main.py"


@pytest.mark.connect
def test_dataframes(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(SEED), str(examples(0.5))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["wrong"] == {}
    assert found["random rewritten"] >= found["random"] / 3, found["random reasons"]
