from __future__ import annotations

import pytest

from golden_project import Project


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """An empty folder of a user's with a catalog."""
    return Project(pytester)
