"""Each planted fault has its place: ``make test-all`` plants a few of them only, others each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_can_be_planted(fault: Fault) -> None:
    text = (Path(__file__).parents[1] / fault.file).read_text()
    assert text.count(fault.old) == 1
    assert fault.new != fault.old
