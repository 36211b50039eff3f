"""``dovetail advise --event-log``: prints a report on the joins of Spark's event logs."""

from __future__ import annotations

from pathlib import Path

from dovetail.optimizer import terminal
from dovetail.optimizer.advise.event_log.advice import read_folder
from dovetail.optimizer.advise.event_log.report import print_report, render_report, to_json
from dovetail.optimizer.commands.inputs import write_text
from dovetail.optimizer.failures import Exit
from dovetail.planner.catalog import Catalog
from dovetail.planner.explain.html.page import check_jinja


def run_event_log(folder: Path, *, json: bool = False, catalog: Catalog | None = None, html: str | None = None) -> int:
    """Print a report on the event logs of a folder, or on the one log that a path names; return the exit code.

    ``html``: the file that also gets the report as a page.
    With a catalog, statements whose text the log has are planned, which is more exact than the condition of a plan.  A
    log that cannot be read, or not to its end, is one line on stderr, and the others are read.
    """
    if html is not None:
        check_jinja()
    apps, found, problems = read_folder(folder, catalog)
    for problem in problems:
        terminal.print_error(str(problem))
    if json:
        terminal.print_json(to_json(apps, found, problems))
    elif apps:
        print_report(apps, found)
    if html is not None and apps:
        write_text("--html", html, render_report(apps, found))
    return Exit.DONE if apps else Exit.UNUSABLE
