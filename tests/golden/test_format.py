"""The rules of the .plan format, as a user of the pytest plugin meets them."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.golden_plans.case import CUT, KEYS
from golden_project import BAND, CATALOG, OR, ROOT, Project, approve

pytest_plugins = ["pytester"]


# what a case looks like


def test_update_writes_four_sections_below_the_cut(project: Project) -> None:
    path = approve(project, "band.plan")
    text = path.read_text()
    assert text.startswith(f"{BAND}{CUT}\n== logical ==\nProject  p.id\n")
    assert [line for line in text.split("\n") if line.startswith("== ")] == [
        "== logical ==",
        "== rewrites ==",
        "== plan ==",
        "== sql ==",
    ]
    assert "\n== sql ==\nSELECT p.id\nFROM (points p JOIN LATERAL explode(" in text
    assert "LevelBandJoin  inner, p.x between i.lo and i.hi" in text
    project.run("band.plan").assert_outcomes(passed=1)


def test_what_the_catalog_can_measure_stands_before_the_plan(project: Project) -> None:
    rows = '[[900, 9e5, 2e3, 0, inf], [1, "NULL", 1, 0, 1]]'
    measured = f'{CATALOG}[[measured]]\nasks = ["max(length)", "FROM intervals"]\nrows = {rows}\n'
    project.write("catalogs/line.toml", measured)
    text = approve(project, "band.plan").read_text()
    titles = [line for line in text.split("\n") if line.startswith("== ")]
    assert titles == ["== logical ==", "== rewrites ==", "== measured ==", "== choices ==", "== plan ==", "== sql =="]
    assert "\n-- 900 | 900000 | 2000 | 0 | inf\n-- 1 | NULL | 1 | 0 | 1\n\n== choices ==\nchosen: bins of " in text
    assert "lengths measured" in text
    project.run("band.plan").assert_outcomes(passed=1)
    project.write("catalogs/line.toml", measured.replace("FROM", "OF"))
    said = project.failure("band.plan")
    assert "lengths measured" in said
    assert "lengths not measured" in said


def test_update_leaves_what_is_above_the_cut_alone(project: Project) -> None:
    above = "-- Prose: with a colon.\n\n-- catalog: line\n\n\nSELECT p.id  -- trailing   \n\nFROM points p   \n\n"
    path = approve(project, "odd.plan", above + CUT + "\nold\n")
    assert path.read_text().startswith(above + CUT + "\n== logical ==\n")
    assert "old" not in path.read_text()


def test_update_keeps_the_line_ends_of_the_file(project: Project) -> None:
    path = approve(project, "band.plan", BAND.replace("\n", "\r\n"))
    lines = path.read_bytes().split(b"\n")
    assert all(line.endswith(b"\r") for line in lines[:-1])
    project.run("band.plan").assert_outcomes(passed=1)


def test_update_says_what_it_wrote_and_nothing_when_all_is_current(project: Project) -> None:
    path = project.write("band.plan", BAND)
    project.run("--update-plans", "band.plan").stdout.fnmatch_lines(["*plans written: read them*", "band.plan"])
    before = path.stat().st_mtime_ns
    assert "plans written" not in project.run("--update-plans", "band.plan").stdout.str()
    assert path.stat().st_mtime_ns == before


def test_places_count_from_the_first_line_of_the_sql(project: Project) -> None:
    path = approve(
        project, "open.plan", "-- Open.\n-- catalog: line\n\nSELECT 1 FROM points p\nJOIN intervals i ON x > lo\n"
    )
    assert "(line 2, column 21)" in path.read_text()


def test_what_is_not_carried_runs_as_written(project: Project) -> None:
    path = approve(project, "show.plan", "-- Not a query.\n-- catalog: line\nSHOW TABLES\n")
    _, _, below = path.read_text().partition(CUT)
    assert below == (
        "\n== logical ==\nnot carried\n\n== rewrites ==\n-- from_sql declined: SHOW is not a query (line 1, column 1)\n"
        "\n== plan ==\nSpark runs the statement as written\n"
    )


# what fails, and how it reads


def test_a_case_that_nobody_approved_shows_its_plan(project: Project) -> None:
    project.write("band.plan", BAND)
    said = project.failure("band.plan")
    assert "no plan is approved yet" in said
    assert "+== plan ==" in said
    assert "If this is what you meant:  pytest --update-plans band.plan" in said


def test_a_changed_plan_shows_the_lines_that_differ(project: Project) -> None:
    path = approve(project, "plans/band.plan")
    path.write_text(path.read_text().replace("Scan  points as p\n   └─ Scan  inter", "Scan  points\n   └─ Scan  inter"))
    said = project.failure("plans")
    expected = """\
band.plan: the plan has changed
--- approved
+++ now
"""
    assert expected in said
    assert "-   ├─ Scan  points\n+   ├─ Scan  points as p\n    └─ Scan  intervals as i\n" in said
    assert " == plan ==\n" in said
    assert "If this is what you meant:  pytest --update-plans plans/band.plan" in said


@pytest.mark.parametrize("line", ["-- must uses: Join", "-- operator: Join", "-- note: see below"])
def test_an_unknown_key_is_an_error(project: Project, line: Any) -> None:
    project.write("band.plan", f"{line}\n{BAND}")
    said = project.failure("band.plan")
    assert "band.plan, line 1: " in said
    assert "possible: catalog, error, must not use, must use, option, refused, same plan as" in said or "nearly" in said


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("-- Must use: Join", "must use"),
        ("-- must_use: Join", "must use"),
        ("-- must  use: Join", "must use"),
        ("-- must use Join", "must use"),
        ("-- mustn't use: Join", "must not use"),
        ("-- Refused: because", "refused"),
        ("-- Catalogue: line", "catalog"),
        ("-- OPTION: force = true", "option"),
        ("-- same plan as other", "same plan as"),
    ],
)
def test_a_near_miss_of_a_key_is_an_error(project: Project, line: Any, key: Any) -> None:
    project.write("band.plan", f"{line}\n{BAND}")
    assert f"band.plan, line 1: this is nearly the key '{key}'; write `-- {key}: …`" in project.failure("band.plan")


@pytest.mark.parametrize(
    "line",
    [
        "-- Prose may have a colon: this one has.",
        "-- Ten minutes, and a colon: fine.",
        "-- refused",
        "--",
        "-- A line about `option: x` is prose.",
    ],
)
def test_prose_is_prose(project: Project, line: Any) -> None:
    approve(project, "band.plan", f"{line}\n{BAND}")


@pytest.mark.parametrize("key", KEYS)
def test_a_key_without_a_value_is_an_error(project: Project, key: Any) -> None:
    project.write("band.plan", f"-- {key}:\n{BAND}")
    assert f"`-- {key}:` needs a value" in project.failure("band.plan")


def test_a_key_that_may_stand_once_stands_once(project: Project) -> None:
    project.write("band.plan", f"-- catalog: line\n{BAND}")
    assert "band.plan, line 3: a second `-- catalog:`" in project.failure("band.plan")


def test_a_key_below_the_first_line_of_sql_is_an_error(project: Project) -> None:
    project.write("band.plan", f"{BAND}-- must use: LevelBandJoin\n")
    assert "band.plan, line 5: `-- must use:` belongs above the SQL" in project.failure("band.plan")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- catalog: line\n", "there is no SQL above the cut"),
        (f"{BAND}-- ^ written by hand\n", "line 5: the cut is written -- ^ written by hand · v written by"),
        (f"{BAND}{CUT}\n{CUT}\n", "line 6: a second cut"),
        ("\xff", "cannot be read"),
    ],
)
def test_a_file_that_is_not_well_formed_is_an_error(project: Project, text: Any, message: Any) -> None:
    path = project.write("band.plan", text)
    if text == "\xff":
        path.write_bytes(b"\xff")
    for args in (["band.plan"], ["--update-plans", "band.plan"]):
        assert message in project.failure(*args)


# claims


@pytest.mark.parametrize(
    "claim",
    ["must use: NeighbourBandJoin", "must not use: Scan, LevelBandJoin", "must not use: band_join", "refused: strings"],
)
def test_a_broken_claim_fails_and_is_not_written(project: Project, claim: Any) -> None:
    path = project.write("band.plan", f"-- {claim}\n{BAND}")
    before = path.read_bytes()
    for args in (["band.plan"], ["--update-plans", "band.plan"]):
        said = project.failure(*args)
        assert "band.plan, line 1: the plan breaks a claim" in said
        assert f"-- {claim}" in said
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "claims",
    [
        "-- must use: LevelBandJoin, Scan\n-- must not use: NeighbourBandJoin, Join\n",
        "-- must use: band_join\n-- must use: lower_band_join\n",
    ],
)
def test_claims_that_hold(project: Project, claims: Any) -> None:
    approve(project, "band.plan", claims + BAND)


SELF = (
    "-- catalog: line\nSELECT p.id FROM points p WHERE EXISTS (SELECT * FROM points q WHERE q.id = p.id AND q.x <> p.x)"
)


def test_a_claim_names_any_operator_that_a_plan_prints(project: Project) -> None:
    approve(project, "self.plan", f"-- must use: SelfWindow\n-- must not use: NearestTies, BandWindow\n{SELF}")


def test_a_claim_about_a_refusal_holds(project: Project) -> None:
    approve(project, "or.plan", f"-- refused: it is an OR\n-- must use: Join\n-- must not use: BandJoin\n{OR}")


def test_a_claim_about_something_that_does_not_exist_is_an_error(project: Project) -> None:
    project.write("band.plan", f"-- must not use: NeighborBandJoin\n{BAND}")
    said = project.failure("band.plan")
    assert "there is no operator or rule 'NeighborBandJoin'; did you mean 'NeighbourBandJoin'? possible: " in said


def test_an_equation_between_plans(project: Project) -> None:
    approve(project, "one.plan")
    same = BAND.replace("p.x BETWEEN i.lo AND i.hi", "i.lo <= p.x AND p.x < i.hi")
    approve(project, "deep/two.plan", f"-- same plan as: ../one\n{same}")


def test_an_equation_that_does_not_hold(project: Project) -> None:
    approve(project, "one.plan")
    path = project.write("two.plan", f"-- same plan as: one\n{BAND.replace('i.hi', 'i.hi + 1')}")
    before = path.read_bytes()
    said = project.failure("--update-plans", "two.plan")
    assert "--- one\n+++ two\n == plan ==\n" in said
    assert "-└─ LevelBandJoin  inner, p.x between i.lo and i.hi\n" in said
    assert "+└─ LevelBandJoin  inner, p.x between i.lo and i.hi + 1\n" in said
    assert path.read_bytes() == before


def test_an_equation_with_a_case_that_does_not_exist(project: Project) -> None:
    project.write("one.plan", BAND)
    project.write("two.plan", f"-- same plan as: on\n{BAND}")
    assert "two.plan, line 1: there is no case 'on'; did you mean 'one'? possible: one" in project.failure("two.plan")


def test_an_equation_with_itself(project: Project) -> None:
    project.write("one.plan", f"-- same plan as: one\n{BAND}")
    assert "a case always has the same plan as itself" in project.failure("one.plan")


def test_an_equation_that_says_nothing(project: Project) -> None:
    approve(project, "one.plan", "-- One.\n-- catalog: line\nSELECT 1\n")
    project.write("two.plan", "-- same plan as: one\n-- catalog: line\nSELECT 2\n")
    assert "an equation that says nothing" in project.failure("two.plan")


# options


def test_options_are_those_of_the_optimizer(project: Project) -> None:
    rows = "[tables.points]\nrows = 3\n", "[tables.intervals]\nrows = 3\n"
    text = CATALOG.replace("[tables.points]\n", rows[0]).replace("[tables.intervals]\n", rows[1])
    project.write("catalogs/line.toml", text)
    approve(project, "few.plan", f"-- refused: so few rows\n{BAND}")
    approve(project, "forced.plan", f"-- option: force = true\n-- must use: LevelBandJoin\n{BAND}")
    approve(
        project,
        "pairs.plan",
        f"-- option: nested_loop_pairs = 9\n-- option: strict = false\n-- same plan as: forced\n{BAND}",
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("forse = true", "There is no option 'forse'; did you mean 'force'?"),
        ("force = perhaps", "force cannot be 'perhaps'"),
        ("force", "an option is written `-- option: name = value`"),
        ("disabled_rules = band_joint", "there is no rule 'band_joint'; did you mean 'band_join'?"),
    ],
)
def test_a_wrong_option_is_an_error(project: Project, option: Any, message: Any) -> None:
    project.write("band.plan", f"-- option: {option}\n{BAND}")
    assert f"band.plan, line 1: {message}" in project.failure("band.plan")


# which files are collected


def test_other_files_called_plan_are_left_alone_in_a_folder(project: Project) -> None:
    project.write("terraform.plan", "PK\x03\x04")
    project.write("band.plan", BAND)
    project.run("--update-plans").assert_outcomes(passed=1)
    assert "there is no SQL" not in project.run("terraform.plan").stdout.str()
    project.run("terraform.plan").assert_outcomes(failed=1)


def test_a_plan_needs_no_jvm_and_no_pyspark(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    approve(project, "band.plan")
    project.write(
        "conftest.py",
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == 'pyspark':\n"
        "            raise ImportError('pyspark is not needed')\n"
        "sys.meta_path.insert(0, No())\n",
    )
    result = project.pytester.runpytest_subprocess(
        "-p", "no:dovetail", "-p", "dovetail.golden_plans.plugin", "band.plan"
    )
    result.assert_outcomes(passed=1)


# the summary


def test_the_summary_follows_the_update(project: Project) -> None:
    project.write("plans/SUMMARY.txt", "")
    approve(project, "plans/band/holds.plan")
    approve(project, "plans/refused/or.plan", OR)
    project.write("plans/refused/new.plan", BAND)
    project.write("plans/refused/odd.plan", f"-- must: use\n{BAND}")
    approve(
        project,
        "plans/carry/all.plan",
        "-- All.\n-- catalog: line\nSELECT id FROM points UNION ALL SELECT id FROM intervals\n",
    )
    assert (project.folder / "plans/SUMMARY.txt").read_text() == (
        "band/holds  LevelBandJoin\n"
        "carry/all  as written: SetOp, Project, Scan\n"
        "refused/new  not approved yet\n"
        "refused/odd  not well formed\n"
        "refused/or  declined: p.x BETWEEN i.lo AND i.hi OR p.id > i.lo: it is an OR, "
        "and one of its branches has neither an …\n"
    )
