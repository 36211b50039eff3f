"""The page of a report: an index with links, and each statement with its places marked; no scripts, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dovetail.optimizer.advise.lines import describe_estimates, describe_gain, describe_loop
from dovetail.optimizer.advise.report import Report, StatementAdvice
from dovetail.planner.errors import Place
from dovetail.planner.explain.html.page import environment
from dovetail.planner.explain.html.places import Kind, Reason, Segment, mark_text

COLORS = {"rewritten": "fired", "nested loop": "warning", "declined": "declined", "problem": "error"}


@dataclass(frozen=True)
class Entry:
    """A section of the page: a statement or a join, its facts, and reasons with their places in the SQL."""

    id: str
    name: str
    status: str
    color: str
    figure: str
    facts: tuple[str, ...] = ()
    text: str = ""
    first_line: int = 1
    reasons: tuple[Reason, ...] = ()
    rewriting: str = ""

    @property
    def lines(self) -> list[list[Segment]]:
        """The lines of its SQL, with the places of reasons marked."""
        return mark_text(self.text, self.reasons, {}) if self.text else []

    @property
    def placed(self) -> set[str]:
        """The reasons that are marked in the SQL."""
        return {reason.id for line in self.lines for segment in line for reason in segment.ends}


def render_report(report: Report) -> str:
    """Render the report on a workload."""
    shown = [s for s in report.statements if s.status not in ("unchanged", "not a query")]
    return render(
        "Advice on SQL",
        f"{report.summary}. Planned against {report.planned_against}.",
        ("Statement", "Result", "Saves"),
        [_entry(f"s{n}", s) for n, s in enumerate(shown, 1)],
    )


def render(title: str, summary: str, columns: tuple[str, str, str], entries: list[Entry]) -> str:
    """Render a page.  Raises ``EnvironmentProblem`` if Jinja is not installed; all text of the user is escaped."""
    source = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    return environment().from_string(source).render(title=title, summary=summary, columns=columns, entries=entries)


def _entry(id_: str, s: StatementAdvice) -> Entry:
    facts = (*([f"Rewritten by {', '.join(s.rules)}."] if s.rules else []), *describe_estimates(s))
    facts += (f"Verified: {s.verified}",) if s.verified else ()
    return Entry(
        id_,
        s.where,
        s.status,
        COLORS.get(s.status, ""),
        describe_gain(s),
        facts,
        s.text,
        s.start.line,
        tuple(_reasons(id_, s)),
        s.rewriting,
    )


def _reasons(id_: str, s: StatementAdvice) -> Iterator[Reason]:
    found: list[tuple[Kind, str, str, Place]] = []
    if s.problem:
        found.append(("error", "", s.problem, s.place))
    for loop in s.loops:
        text = " ".join((f"{describe_loop(loop, s)}.", loop.remedy))
        found.append(("fired" if loop.removed else "warning", "", text, loop.place))
    explained = {loop.place for loop in s.loops if loop.remedy}
    found += [
        ("declined", d.rule, " ".join((f"{d.reason}.", "" if d.place in explained else d.remedy)), d.place)
        for d in s.declined
    ]
    return number_reasons(id_, ((kind, rule, text, _inside(place, s.start)) for kind, rule, text, place in found))


def number_reasons(id_: str, found: Iterable[tuple[Kind, str, str, Place | None]]) -> Iterator[Reason]:
    """Reasons with their ids and footnote signs."""
    for n, (kind, rule, text, place) in enumerate(found, 1):
        yield Reason(kind, f"{id_}-{n}", str(n), rule, text.strip(), (place,) if place else ())


def _inside(place: Place, start: Place) -> Place:
    """The place in the statement of a place in its file."""
    line = place.line - start.line + 1
    return Place(line, place.column - (start.column - 1 if line == 1 else 0))
