"""The golden cases on Spark Connect: the plans of a classic session, and the rows of plain Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from effort import SEED

PROGRAM = Path(__file__).parents[1] / "connect_goldens_main.py"
# `make test` plans one of so many cases, `make test-all` one of so many, others with each seed.
QUICK, THOROUGH = 96, 3
# Cases that are planned otherwise than on a classic session, with words of the difference.
DIFFERENT = {
    # Spark numbers each WITH anew, so that a view with one is never the same query as its text.
    "subqueries/view_with_a_cte": "neither a band nor a nearest row",
}


def check_share(scratch: Path, share: int, shares: int) -> None:
    """Plan a share of the cases in a process of its own, on a server of its own, and compare."""
    command = [sys.executable, str(PROGRAM), str(scratch), f"{share}/{shares}"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["cases"] > 400 / shares
    assert found["rewritten"] > 400 / shares
    assert not found["wrong"]
    seen = found["different"]
    listed = {name: why for name, why in DIFFERENT.items() if crc32(name.encode()) % shares == share}
    assert {name: why for name, why in seen.items() if name not in listed} == {}
    assert [name for name in listed if name not in seen] == [], "these cases do not differ: take them out"
    assert {name: why for name, why in seen.items() if listed[name] not in why} == {}


@pytest.mark.connect
def test_a_small_share_of_the_cases(tmp_path: Path) -> None:
    check_share(tmp_path, 0, QUICK)


@pytest.mark.connect
def test_a_large_share_of_the_cases(tmp_path: Path) -> None:
    check_share(tmp_path, SEED % THOROUGH, THOROUGH)
