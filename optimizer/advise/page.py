"""The report as one HTML page, without scripts and without a network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from optimizer.advise.report import Report
from planner.errors import EnvironmentProblem


def require_jinja() -> None:
    """Raise ``EnvironmentProblem`` if Jinja is not installed."""
    if find_spec("jinja2") is None:
        raise EnvironmentProblem("--html needs Jinja, which is not installed", remedy="pip install 'dovetail[html]'")


def render_page(report: Report) -> str:
    """Render the report; all text of the user is escaped."""
    from jinja2 import Environment

    source = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source).render(report=report)
