"""Plans as pages: whole, without scripts, with all text of the user escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dovetail.golden_plans.case import read_case
from dovetail.golden_plans.planned import catalog_of, plan_case
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.plan import Plan
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.optimizer.streams.plan import StreamPlan
from dovetail.optimizer.streams.queries import StreamPlanner, StreamQuery
from dovetail.optimizer.verification import Verification
from dovetail.planner.band.axis import Axis
from dovetail.planner.errors import OptionError, Place
from dovetail.planner.explain.html.band_picture import _histogram, band_pictures
from dovetail.planner.explain.html.page import _format_bytes, _format_figure, compare_trees, render_fragment
from dovetail.planner.explain.html.places import Reason, mark_text, places_of, scalar_lengths
from dovetail.planner.explain.measured import MeasuredOperator, MeasuredRun, MeasuredRuns
from dovetail.planner.explain.records import Choice, MeasuredLengths
from dovetail.planner.state.stream import Stream

CASES = Path(__file__).parents[1] / "golden_plans" / "cases"
# a case of each scheme of bins, and of each other kind of plan
PAGES = [
    "measured/distance_with_equal_keys", "measured/intervals_of_two_lengths", "measured/kept_intervals_of_two_lengths",
    "measured/overlap_of_one_length", "measured/overlap_of_several_lengths", "measured/intervals_without_end",
    "measured/lookup_of_many_keys", "measured/no_window_for_few_rows", "refused/asof_join",
    "refused/ambiguous_column", "hints/range_join_in_a_chain", "self/inner", "normalize/comma_and_where",
]  # fmt: skip
VOID = {"meta", "rect", "line", "br"}
HOSTILE = """</script><img src=x onerror="alert(1)">"""


class Page(HTMLParser):
    """The elements and the text of a page; fails where tags do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def planned(name: str) -> Plan:
    found = [path for path in CASES.rglob("*.plan") if str(path).endswith(f"/{name}.plan")]
    return plan_case(read_case(found[0]))


def planned_stream(name: str) -> StreamPlan:
    """The plan of ``opt.stream`` for a golden case."""
    case = read_case(CASES / "streams" / f"{name}.plan")
    catalog = catalog_of(case)

    def find(table: tuple[str, ...]) -> Stream | None:
        found = catalog.table(table)
        columns = tuple((c.name, c.type.text if c.type else "") for c in found.columns) if found else ()
        return Stream(columns, found.watermark) if found and found.stream else None

    return StreamPlanner(catalog, Options(), find).plan(StreamQuery(case.sql))


def verification(detail: str) -> Verification:
    """A result of `verify` with a measured run of each way; ``detail`` is that of an operator."""
    operators = [MeasuredOperator(n, "Sort" if n % 3 else "Scan parquet", detail, 7**n or None) for n in range(20)]
    runs = MeasuredRuns(MeasuredRun(12.5, tuple(operators)), MeasuredRun(0.25, tuple(operators[:3])))
    return Verification(True, 48_213, 0, 0, True, runs=runs)


def check(page: str) -> Page:
    """Parse a page, and check what holds for every page."""
    assert len(page.encode()) < 500_000
    parsed = Page(page)
    assert not {tag for tag, _ in parsed.elements} & {"script", "img", "iframe", "link", "object", "form"}
    names = [name for _, attributes in parsed.elements for name in attributes]
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcset", "action")]
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"] for _, attributes in parsed.elements if "href" in attributes}
    assert {f"#{one}" for one in ids} >= targets
    assert "url(" not in page
    assert "@import" not in page
    return parsed


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_what_the_explanation_has(name: str) -> None:
    plan = planned(name)
    text = " ".join(check(plan.explain("html")).text.split())
    for reason in (*plan.declined, *plan.warnings, *((plan.error,) if plan.error else ())):
        assert " ".join(reason.reason.split()) in text
    assert all(rule in text for rule in plan.rules)
    if plan.rewritten:
        assert " ".join(plan.sql().split()) in text
        assert plan.physical
        assert all(" ".join(f"{n.label} {n.detail}".split()) in text for n in plan.physical.walk())


def hostile_plan(name: str) -> Plan:
    """A plan whose names, literals and comments are a text that looks like markup."""
    catalog = catalog_of(read_case(next(CASES.glob("measured/intervals_of_two_lengths.plan"))))
    text = f"SELECT '{name}' AS `{name}`, `{name}`.at FROM events `{name}` JOIN leases l\n"
    text += f"ON `{name}`.at BETWEEN l.starts AND l.ends AND `{name}`.id <> '{name}' /* {name} */"
    plan = plan_sql(text, catalog, Options(force=True))
    assert plan.rewritten
    return plan


def test_text_of_the_user_stays_text() -> None:
    plan = hostile_plan(HOSTILE)
    parsed = check(plan.explain("html"))
    assert parsed.text.count(HOSTILE) > 10
    assert f"`{HOSTILE}`.at BETWEEN l.starts AND l.ends" in parsed.text
    check(render_fragment(plan.explanation()))


def test_a_measured_run_has_its_operators() -> None:
    page = check(planned(PAGES[0]).explain("html", verified=verification(HOSTILE)))
    assert "Verified: same: 48,213 rows both ways; 12.50 s as written, 0.25 s rewritten" in page.text
    assert "As written: 12.50 s" in page.text
    assert "Rewritten: 250.0 ms" in page.text
    assert "16,807 rows" in page.text  # 7 to the power of 5
    assert page.text.count(HOSTILE) == 23
    assert "Measured" not in check(planned(PAGES[0]).explain("html")).text


@pytest.mark.parametrize(
    "text", ["SELECT <b>{{ 7 * 7 }}</b> FROM", "{% raw %}", "SELECT '\u202e\x00\r\n' AS a", "\n\n"]
)
def test_a_statement_that_is_not_parsed_has_a_page(text: str) -> None:
    catalog = catalog_of(read_case(next(CASES.glob("measured/intervals_of_two_lengths.plan"))))
    assert "49" not in check(plan_sql(text, catalog).explain("html")).text


def test_a_large_plan_has_a_page_of_limited_size() -> None:
    catalog = catalog_of(read_case(next(CASES.glob("measured/intervals_of_two_lengths.plan"))))
    columns = ",\n".join(f"'{'text ' * 1_000}' AS c{n}" for n in range(100))
    text = f"SELECT {columns} FROM events e JOIN leases l ON e.at BETWEEN l.starts AND l.ends"
    plan = plan_sql(text, catalog, Options(force=True))
    assert plan.rewritten
    assert len(plan.text) > 400_000
    assert "The plan is large" in check(plan.explain("html")).text


def test_the_places_of_a_band_are_its_conditions() -> None:
    plan = planned("measured/distance_with_equal_keys")
    explanation = plan.explanation()
    reasons = [Reason("fired", f"r{n}", "", s.rule.name, "", places_of(s)) for n, s in enumerate(explanation.steps)]
    lines = mark_text(plan.text, reasons, scalar_lengths(plan.text, plan.logical))
    assert "\n".join("".join(segment.text for segment in line) for line in lines) == plan.text
    marked = {(segment.text, reason.rule) for line in lines for segment in line for reason in segment.reasons}
    band = "b.at BETWEEN a.at - 60 AND a.at + 60"
    assert marked == {(band, "band_join"), (band, "lower_band_join")}


def test_places_that_overlap_are_cut_into_segments() -> None:
    text = "SELECT a\n  FROM t WHERE a > 1"
    outer = Reason("declined", "r1", "d1", "outer", "", (Place(1, 8),))
    inner = Reason("error", "r2", "e", "inner", "", (Place(2, 3),))
    beyond = Reason("warning", "r3", "w1", "beyond", "", (Place(9, 9), Place(2, 999)))
    lines = mark_text(text, [outer, inner, beyond], {Place(1, 8): 10})
    found = [[(s.text, s.kind, [r.mark for r in s.ends]) for s in line if s.reasons] for line in lines]
    assert found == [[("a", "declined", [])], [("FROM", "error", ["e"]), (" t", "declined", ["d1"])]]


def test_only_lines_that_differ_are_changed() -> None:
    plan = planned("measured/intervals_of_two_lengths")
    assert plan.logical
    assert plan.physical
    before, after = compare_trees(plan.logical, plan.physical)
    assert [line.label for line in before if line.changed] == ["Join"]
    assert [line.label for line in after if line.changed] == ["LevelBandJoin"]
    assert [line.label for line in after if not line.changed] == ["Project", "Scan", "Scan"]


def test_choices_have_their_figures() -> None:
    plan = planned("measured/intervals_of_two_lengths")
    (choice,) = plan.decisions
    assert isinstance(choice, Choice)
    assert plan.choices == choice.lines
    assert [way.pairs for way in choice.rejected][-1] == 5_000_000 * 1_000_000
    ((band, side, classes),) = choice.chosen.lengths
    assert (band, side, sum(count for _, count in classes)) == ("e.at between l.starts and l.ends", "right", 1_000_000)
    text = " ".join(check(plan.explain("html")).text.split())
    assert "Spark's own join 6 M–5 T" in text


@pytest.mark.parametrize(
    ("figure", "text"),
    [(None, "–"), (0, "0"), (0.25, "0.25"), (999.4, "999"), (999.7, "1 k"), (12_345, "12.3 k"), (5e12, "5 T")],
)
def test_figures_have_three_digits(figure: float | None, text: str) -> None:
    assert _format_figure(figure) == text


def test_bytes_have_binary_units() -> None:
    assert [_format_bytes(n) for n in (0, 1023, 1024, 1536, 1024**2 - 1, 641 * 2**20)] == [
        "0 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "641 MiB"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "drawings", "bins"),
    [
        ("measured/distance_with_equal_keys", 1, 3),  # two copies of a row, and one bin for the other side
        ("measured/intervals_of_two_lengths", 2, 2),  # a bin on either level
        ("measured/kept_intervals_of_two_lengths", 2, 5),  # two bins on every level, and one for any length
        ("measured/overlap_of_one_length", 3, 7),  # both intervals in the bins that they touch
    ],
)
def test_pictures_show_the_bins_that_rows_have(name: str, drawings: int, bins: int) -> None:
    plan = planned(name)
    found = band_pictures(plan.physical, plan.decisions)
    assert len(found) == drawings
    assert sum(box.style == "bin" for box in found[0].boxes) == bins
    for drawing in found:
        assert all(box.x >= 0 and box.x + box.width <= drawing.width for box in drawing.boxes)
        assert all(box.y >= 0 and box.y + box.height <= drawing.height for box in drawing.boxes)
        assert all(0 <= label.y <= drawing.height for label in drawing.labels)


def test_a_stream_has_its_routes() -> None:
    plan = planned_stream("orders_that_follow")
    assert plan.join
    text = " ".join(check(plan.explain("html")).text.split())
    assert "2 inputs; 3 routes of new rows" in text
    assert "new payments as p →before orders as b by id" in text
    with pytest.raises(OptionError, match="explain has no mode 'json' for streams"):
        plan.explain("json")  # type: ignore[arg-type]


def test_a_join_that_spark_runs_has_its_reason() -> None:
    plan = planned_stream("three_without_a_way")
    assert plan.join is None
    assert plan.reason in " ".join(check(plan.explain("html")).text.split())


def test_a_notebook_gets_a_fragment() -> None:
    plan = planned("measured/intervals_of_two_lengths")
    fragment = plan._repr_html_()
    assert fragment
    assert not {tag for tag, _ in check(fragment).elements} & {"html", "body", "head"}
    styles = re.sub(r"@media[^{]*\{|/\*.*?\*/", "", fragment.partition("<style>")[2].partition("</style>")[0])
    selectors = [part.rpartition("}")[2].strip() for part in styles.split("{")[:-1]]
    assert [selector for selector in selectors if not selector.startswith(".dovetail-plan")] == []


def test_a_plan_from_the_cache_shows_no_times_of_the_planning_that_made_it() -> None:
    plan = replace(planned("measured/intervals_of_one_length"), timings={"catalog": 0.1, "total": 0.126})
    assert plan.trace.seconds  # of the planning that made it
    page = render_fragment(plan.explanation())
    assert "taken from the cache in 126.0 ms" in page
    assert "Rule (the slowest)" not in page
    assert "planned in" in render_fragment(planned("measured/intervals_of_one_length").explanation())


def test_a_bar_and_a_bin_of_nearly_one_length_stand_together() -> None:
    lengths = MeasuredLengths("b", "right", ((3600.0, 5), (3600.0004, 7)))
    drawing = _histogram(lengths, (3600.0004,), Axis("number", exact=True))
    (probe,) = (line for line in drawing.lines if line.style == "probe")
    assert all(abs(box.x + box.width / 2 - probe.x1) < 1 for box in drawing.boxes)


def test_the_point_of_a_picture_has_a_mark_of_its_own() -> None:
    plan = planned("measured/intervals_of_two_lengths")
    lanes = band_pictures(plan.physical, plan.decisions)[0]
    point = next(box for box in lanes.boxes if box.style == "point")
    label = next(label for label in lanes.labels if label.text.endswith("point"))
    assert point.x + point.width <= label.x
    assert point.y <= label.y <= point.y + 15
    assert [label.text for label in lanes.labels if "(bar)" in label.text]
