"""Each planted fault has its place; ``make planted-faults`` plants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_can_be_planted(fault: Fault) -> None:
    root = Path(__file__).parents[1]
    text = (root / fault.file).read_text()
    assert text.count(fault.old) == 1
    assert fault.new != fault.old
    assert (root / (fault.tests or f"golden_plans/cases/{fault.cases}")).exists()
