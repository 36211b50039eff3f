"""Renders an explanation as HTML: a page of its own, or a fragment for a notebook.

Templates escape all text.  The page has no script, and its content security policy allows none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from dovetail.planner.errors import EnvironmentProblem, Place
from dovetail.planner.explain.explanation import Explanation
from dovetail.planner.explain.html.band_picture import band_pictures
from dovetail.planner.explain.html.places import Reason, mark_text, places_of, scalar_lengths
from dovetail.planner.explain.measured import MeasuredOperator
from dovetail.planner.explain.printer import diff
from dovetail.planner.explain.records import Choice, CostNote
from dovetail.planner.physical.half_join import Arrangement, AsOfHalfJoin, Build, Epoch, HalfJoin
from dovetail.planner.tree import Node

if TYPE_CHECKING:
    from jinja2 import Environment


T = TypeVar("T")

_TEMPLATES = "dovetail.planner.explain.html"
_LARGEST_PAGE = 480_000  # characters; a longer page is cut to this length, part by part
_LONGEST_PART = 30_000  # characters of each part of a page that is cut
_LARGEST_FIGURE = 1e15


def can_render() -> bool:
    """Whether Jinja, which pages need, is installed."""
    return find_spec("jinja2") is not None


def check_jinja() -> None:
    """Raise ``EnvironmentProblem`` if Jinja is not installed."""
    if not can_render():
        raise EnvironmentProblem(
            "Pages need Jinja, which is not installed", remedy="install it with `pip install jinja2`"
        )


def render_page(explanation: Explanation) -> str:
    """Render a page that needs no network.  Raises ``EnvironmentProblem`` if Jinja is not installed."""
    return _render("page.html", explanation)


def render_fragment(explanation: Explanation) -> str:
    """Render a fragment for a notebook, whose styles concern nothing around it."""
    return _render("fragment.html", explanation)


def _render(template: str, explanation: Explanation) -> str:
    found = environment().get_template(template)
    page = found.render(_parts(explanation, None))
    if len(page.encode()) > _LARGEST_PAGE:
        page = found.render(_parts(explanation, _LONGEST_PART))
    return page


@cache
def environment() -> Environment:
    """The templates with their filters; all text is escaped.  Raises ``EnvironmentProblem`` without Jinja."""
    check_jinja()
    from jinja2 import DictLoader, Environment, StrictUndefined

    folder = resources.files(_TEMPLATES) / "templates"
    templates = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}
    made = Environment(
        loader=DictLoader(templates), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"figure": _format_figure, "size": _format_bytes, "seconds": _format_seconds}
    return made


def _parts(explanation: Explanation, longest: int | None) -> dict[str, Any]:
    """The variables of the templates; each text and list has at most about ``longest`` characters, if there is one."""
    before, after = explanation.before, explanation.after
    if before is not None and after is not None and explanation.rewritten:
        old, new = compare_trees(before, after)
    else:
        old, new = [], tree_lines(after) if after is not None else []
    prefix = f"d{sha256(explanation.text.encode(errors='surrogatepass')).hexdigest()[:8]}"
    reasons = _reasons(explanation, prefix)
    text, sql = explanation.text.strip("\n"), explanation.sql.strip("\n")
    lines = mark_text(explanation.text, reasons, scalar_lengths(explanation.text, before))
    steps = [(reason, diff(step.before, step.after)) for reason, step in zip(reasons, explanation.steps, strict=False)]
    cut = longest is not None
    if longest is not None:
        lines = _first(lines, longest, lambda line: sum(len(s.text) for s in line) + 80)
        old, new = (_first(side, longest, lambda line: len(line.detail) + 160) for side in (old, new))
        steps = _first(steps, longest, lambda step: sum(len(line) + 40 for line in step[1]))
        reasons = _first(reasons, longest, lambda reason: len(reason.text) + 300)
        sql = sql[:longest]
    return {
        "explanation": explanation,
        "prefix": prefix,
        "title": _title(text),
        "before": old,
        "after": new,
        "lines": lines,
        "reasons": reasons,
        "placed": {segment_reason.id for line in lines for s in line for segment_reason in s.ends},
        "steps": steps,
        "choices": [c for c in explanation.decisions if isinstance(c, Choice)],
        "cost_notes": [n for n in explanation.decisions if isinstance(n, CostNote)],
        "pictures": band_pictures(after, explanation.decisions) if explanation.rewritten else [],
        "routes": routes_of(after),
        "sql": sql,
        "stages": _stages(explanation),
        "total": explanation.timings.get("total"),
        "runs": _runs(explanation, longest),
        "rule_seconds": sorted(explanation.rule_seconds.items(), key=lambda rule: -rule[1])[:8],
        "cut": cut,
    }


def _runs(explanation: Explanation, longest: int | None) -> list[tuple[str, float, list[MeasuredOperator]]]:
    """For each measured run its heading, its seconds, and its operators."""
    if explanation.runs is None:
        return []
    found = []
    for heading, run in (("As written", explanation.runs.written), ("Rewritten", explanation.runs.rewritten)):
        operators = list(run.operators)
        if longest is not None:
            operators = _first(operators, longest, lambda operator: len(operator.detail) + 160)
        found.append((heading, run.seconds, operators))
    return found


def _stages(explanation: Explanation) -> list[tuple[str, float]]:
    """The seconds of each stage; the rest of the total is for printing and checks.

    Requests to the catalog are part of other stages, so they come last.
    """
    timings = dict(explanation.timings)
    total, catalog = timings.pop("total", 0.0), timings.pop("catalog", None)
    stages = list(timings.items())
    if stages and (rest := total - sum(timings.values())) > 0:
        stages.append(("print and check", rest))
    return stages if catalog is None else [*stages, ("of all these, in the catalog", catalog)]


def _reasons(explanation: Explanation, prefix: str) -> list[Reason]:
    """All reasons: the rewritings first, in their order."""
    error = explanation.error
    return [
        *(
            Reason("fired", f"{prefix}-f{n}", str(n), step.rule.name, step.rule.why, places_of(step))
            for n, step in enumerate(explanation.steps, 1)
        ),
        *(
            Reason("declined", f"{prefix}-d{n}", f"d{n}", one.rule, one.reason, _places(one.place))
            for n, one in enumerate(explanation.declined, 1)
        ),
        *(
            Reason("warning", f"{prefix}-w{n}", f"w{n}", one.rule, one.reason, _places(one.place))
            for n, one in enumerate(explanation.warnings, 1)
        ),
        *([Reason("error", f"{prefix}-e1", "e", "", error.reason, _places(error.place))] if error else []),
    ]


def _places(place: Place | None) -> tuple[Place, ...]:
    return (place,) if place else ()


def _first(items: list[T], longest: int, length: Callable[[T], int]) -> list[T]:
    """The first items, as long as their lengths add up to no more than ``longest``."""
    found: list[T] = []
    total = 0
    for item in items:
        total += length(item)
        if total > longest:
            break
        found.append(item)
    return found


def _title(text: str) -> str:
    line = " ".join(text.split())
    return f"{line[:70]} …" if len(line) > 72 else line


def _format_figure(value: float | None) -> str:
    """Format an estimate with three digits; a dash for an unknown one."""
    if value is None:
        return "–"
    if value >= _LARGEST_FIGURE:
        return f"{value:.2e}"
    return _scale(value, 1000, ("", "k", "M", "G", "T"))


def _format_bytes(value: float | None) -> str:
    return "–" if value is None else _scale(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def _scale(value: float, step: int, units: tuple[str, ...]) -> str:
    """Format a value in the largest unit of which it has one or more."""
    power = 0
    while power < len(units) - 1 and round(value) >= step:
        value, power = value / step, power + 1
    text = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {units[power]}".rstrip()


def _format_seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


@dataclass(frozen=True)
class TreeLine:
    """A node of a plan: its depth, operator, detail and notes; ``subquery``: its number if it is one, else 0."""

    depth: int
    label: str
    detail: str
    notes: tuple[str, ...] = ()
    subquery: int = 0
    changed: bool = False


def tree_lines(node: Any, depth: int = 0, subquery: int = 0) -> list[TreeLine]:
    """The nodes of a plan, parents first."""
    lines = [TreeLine(depth, node.label, node.detail, node.notes, subquery)]
    for child in node.children:
        lines += tree_lines(child, depth + 1)
    for number, plan in enumerate(node.subplans, 1):
        lines += tree_lines(plan, depth + 1, number)
    return lines


def compare_trees(before: Node, after: Node) -> tuple[list[TreeLine], list[TreeLine]]:
    """The lines of both plans; ``changed`` are those that the other plan does not have.  Depth does not count."""
    old, new = tree_lines(before), tree_lines(after)
    keys = [[(line.label, line.detail, line.notes) for line in lines] for lines in (old, new)]
    for tag, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag != "equal":
            old[a:b] = [replace(line, changed=True) for line in old[a:b]]
            new[c:d] = [replace(line, changed=True) for line in new[c:d]]
    return old, new


@dataclass(frozen=True)
class Stop:
    """An arrangement on a route, and the condition of the lookup in it; the first stop has none."""

    label: str
    version: str
    condition: str = ""


@dataclass(frozen=True)
class Routes:
    """The inputs with their notes, the arrangements that are looked up, and a route for the new rows of each input."""

    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    arrangements: tuple[str, ...]
    routes: tuple[tuple[Stop, ...], ...]


def routes_of(plan: Node | None) -> Routes | None:
    """The routes of an epoch; None for a plan that is not one."""
    if not isinstance(plan, Epoch):
        return None
    builds = tuple((step.name, step.lines) for step in plan.steps if isinstance(step, Build))
    routes = tuple(tuple(_stops(step)) for step in plan.steps if not isinstance(step, Build))
    arrangements = dict.fromkeys(stop.label for route in routes for stop in route[1:])
    return Routes(builds, tuple(arrangements), routes)


def _stops(node: Node) -> list[Stop]:
    match node:
        case Arrangement():
            by = f" by {', '.join(node.by)}" if node.by else ""
            return [Stop(f"{node.name}{by}", node.version.name.lower())]
        case HalfJoin():
            *others, last = _stops(node.right)
            time = f", the version valid at {node.time}" if isinstance(node, AsOfHalfJoin) else ""
            stop = Stop(last.label, last.version, f"{node.kind}, on {node.condition}{time}")
            return [*_stops(node.left), *others, stop]
    return [stop for child in node.children for stop in _stops(child)]
