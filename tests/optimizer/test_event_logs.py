"""Advice from event logs: real logs of Spark with planted joins, and logs that are damaged in every way."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
import zstandard

from dovetail.optimizer.advise.event_log import application as event_log_application
from dovetail.optimizer.advise.event_log import findings as event_log_findings
from dovetail.optimizer.advise.event_log import read_log as event_log_reader
from dovetail.optimizer.advise.event_log.advice import read_folder
from dovetail.optimizer.advise.event_log.application import Application
from dovetail.optimizer.advise.event_log.files import find_logs
from dovetail.optimizer.advise.event_log.findings import Measured
from dovetail.optimizer.advise.event_log.plan_nodes import split_top
from dovetail.optimizer.advise.event_log.read_log import read_log
from dovetail.optimizer.advise.event_log.report import Reported
from dovetail.optimizer.commands.event_log import run_event_log
from dovetail.optimizer.options import Options
from dovetail.optimizer.planning.statement import plan_sql
from dovetail.planner.offline_catalog.read_catalog import read_catalog
from event_log_queries import KEYED, ORDINARY, PLANTED

LOGS = Path(__file__).parents[1] / "event_logs"
ADAPTIVE, PLAIN, KEYS = LOGS / "eventlog_v2_planted", LOGS / "without_adaptive.zstd", LOGS / "keys.zstd"
CATALOG = """
[tables.points]
rows = 1_000_000
columns = { id = "BIGINT", k = "BIGINT", x = "BIGINT", ts = "TIMESTAMP" }

[tables.intervals]
rows = 1_000_000
columns = { id = "BIGINT", k = "BIGINT", lo = "BIGINT", hi = "BIGINT", start = "TIMESTAMP", finish = "TIMESTAMP" }

[tables.facts]
rows = 1_000_000
columns = { id = "BIGINT", k = "BIGINT", x = "BIGINT" }

[tables.other_facts]
rows = 1_000_000
columns = { id = "BIGINT", k = "BIGINT", y = "BIGINT" }

[tables.people]
rows = 1_000_000
columns = { id = "BIGINT", kind = "STRING", email = "STRING", phone = "STRING", items = "ARRAY<BIGINT>" }

[tables.leads]
rows = 1_000_000
columns = { id = "BIGINT", email = "STRING", phone = "STRING", items = "ARRAY<BIGINT>", labels = "MAP<STRING,BIGINT>" }
"""
WHERE = [
    *((ADAPTIVE, name) for name in PLANTED),
    *((PLAIN, name) for name in PLANTED),
    *((KEYS, name) for name in KEYED),
]
QUERIES = PLANTED | KEYED
VERDICTS = {"band": ("yes", "band join"), "nearest": ("yes", "nearest rows"), "keys": ("yes", "join by keys")}


@cache
def findings(log: Path) -> dict[str, Reported]:
    """The findings of a log by the name of the query, which stands in its text."""
    _, found, problems = read_folder(log)
    assert problems == []
    names = [re.findall(r"/\* (\w+) \*/", one.finding.sql or "")[0] for one in found]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    return dict(zip(names, found, strict=True))


@cache
def text_of(log: Path) -> bytes:
    data = next(log.glob("events_*")) if log.is_dir() else log
    return zstandard.ZstdDecompressor().stream_reader(data.read_bytes()).read()


@pytest.mark.parametrize(("log", "name"), WHERE, ids=[f"{log.stem}-{name}" for log, name in WHERE])
def test_each_planted_join_is_found_with_its_condition(log: Path, name: str) -> None:
    query, finding = QUERIES[name], findings(log)[name].finding
    assert finding.join.node == query.node
    condition = finding.join.complete_condition
    assert [column for column in query.columns if not re.search(rf"\b{column}#\d", condition)] == []
    assert (finding.verdict.answer, finding.verdict.rewriting) == VERDICTS.get(query.verdict, ("no", ""))
    assert finding.stages
    assert finding.seconds > 0
    assert None not in finding.rows


@pytest.mark.parametrize("log", [ADAPTIVE, PLAIN], ids=["adaptive", "plain"])
def test_no_ordinary_join_is_found(log: Path) -> None:
    assert all(f"/* {name} */".encode() in text_of(log) for name in ORDINARY)
    assert [name for name in findings(log) if name not in PLANTED] == []


@pytest.mark.parametrize("name", QUERIES)
def test_the_verdict_is_that_of_the_planner(name: str, tmp_path: Path) -> None:
    (tmp_path / "planted.toml").write_text(CATALOG)
    plan = plan_sql(QUERIES[name].text, read_catalog(tmp_path / "planted.toml"), Options(force=True))
    log = KEYS if name in KEYED else ADAPTIVE
    assert plan.rewritten is (findings(log)[name].finding.verdict.answer == "yes")


def test_rows_and_task_time_are_those_of_the_log() -> None:
    inner = findings(ADAPTIVE)["inner"].finding
    assert inner.rows == (600, 200, 2493)
    ended = [json.loads(line) for line in text_of(ADAPTIVE).splitlines() if b"SparkListenerTaskEnd" in line[:60]]
    times = Counter[int]()
    for event in ended:
        times[event["Stage ID"]] += event["Task Metrics"]["Executor Run Time"]
    assert round(inner.seconds * 1000) == sum(times[stage] for stage in inner.stages)
    assert inner.share == pytest.approx(inner.seconds * 1000 / times.total())
    skew = findings(ADAPTIVE)["skewed"].finding.skew
    assert skew is not None
    assert skew.tasks == 8
    assert skew.longest > 5 * skew.median


def test_statements_are_planned_where_there_is_a_catalog(tmp_path: Path) -> None:
    (tmp_path / "planted.toml").write_text(CATALOG)
    _, found, _ = read_folder(PLAIN, read_catalog(tmp_path / "planted.toml"))
    by_sql = {one.finding.sql: one.finding.verdict for one in found}
    verdict = by_sql[f"/* inner */ {PLANTED['inner'].text}"]
    assert (verdict.answer, verdict.rewriting) == ("yes", "band join")
    assert verdict.reason.endswith("The statement is rewritten: band_join, lower_band_join.")
    small = CATALOG.replace("1_000_000", "10")
    (tmp_path / "small.toml").write_text(small)
    _, found, _ = read_folder(PLAIN, read_catalog(tmp_path / "small.toml"))
    by_sql = {one.finding.sql: one.finding.verdict for one in found}
    verdict = by_sql[f"/* inner */ {PLANTED['inner'].text}"]
    assert verdict.answer == "no"
    assert "nested_loop_pairs" in verdict.reason


def test_the_call_site_and_the_description_of_a_job_are_reported(tmp_path: Path) -> None:
    lines = []
    for line in text_of(PLAIN).splitlines():
        event = json.loads(line)
        if event["Event"].endswith("SQLExecutionStart") and str(event["description"]).startswith("/* inner */"):
            event["description"] = "nightly load"
            site = {"callSite.short": 'collect at /jobs/"n".py:12', "spark.sql.execution.id": str(event["executionId"])}
            job = {"Event": "SparkListenerJobStart", "Job ID": 1, "Stage Infos": [], "Properties": site}
            lines += [json.dumps(event), json.dumps(job)]
        elif event["Event"].endswith("SQLExecutionStart") and str(event["description"]).startswith("/* left */"):
            lines.append(json.dumps(event | {"description": "count at Nightly.scala:7"}))
        else:
            lines.append(line.decode())
    (tmp_path / "app").write_text("\n".join(lines))
    _, found, problems = read_folder(tmp_path)
    assert problems == []
    origins = {(o.call_site, o.description) for o in (one.finding.origin for one in found)}
    assert origins == {("", ""), ('collect at /jobs/"n".py:12', "nightly load"), ("count at Nightly.scala:7", "")}


def test_the_page_of_a_log(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    assert run_event_log(PLAIN, html=str(tmp_path / "x.html")) == 0
    text = (tmp_path / "x.html").read_text()
    assert '<a href="#j1">1. ' in text
    assert "SELECT * FROM points p JOIN intervals i ON p.x BETWEEN i.lo AND i.hi" in text
    assert "22 joins that Spark runs badly" in text


def test_a_log_in_progress_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    half = text_of(PLAIN)[: len(text_of(PLAIN)) * 9 // 10]
    (tmp_path / "app.inprogress").write_bytes(half)
    (tmp_path / "app").write_bytes(half)
    apps, found, problems = read_folder(tmp_path)
    assert [app.ended for app in apps] == [False, False]
    assert len(found) > 20
    assert [problem.path.name for problem in problems] == ["app"]


def test_rows_of_a_stage_that_has_not_completed_are_those_of_its_tasks(tmp_path: Path) -> None:
    lines = [line for line in text_of(PLAIN).splitlines(keepends=True) if b"StageCompleted" not in line[:60]]
    (tmp_path / "app.inprogress").write_bytes(b"".join(lines))
    _, found, _ = read_folder(tmp_path)
    (full,) = [one.finding for one in found if "/* inner */" in (one.finding.sql or "")]
    assert full.rows == findings(PLAIN)["inner"].finding.rows


def test_numbers_as_texts_are_numbers(tmp_path: Path) -> None:
    as_text = re.sub(rb":(\d+)(?=[,}])", rb':"\1"', text_of(PLAIN))
    (tmp_path / "app").write_bytes(as_text)
    _, found, problems = read_folder(tmp_path)
    assert problems == []
    assert {one.finding.seconds for one in found} == {one.finding.seconds for one in findings(PLAIN).values()}


def _broken(zstd: bytes) -> bytes:
    return zstd[:2000] + bytes(3000) + zstd[5000:]


START = b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n'
END = b'{"Event":"SparkListenerApplicationEnd","Timestamp":1}\n'
DAMAGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty"),
    "half_a_line": (lambda: START + b'{"Event":"SparkListenerTaskEnd","Stage ID":3,"Stage Att', "last line is cut off"),
    "no_object": (lambda: START + b"[1, 2]\n17\n" + END, "Line 2 is no event of Spark's, nor is 1 more"),
    "object_elsewhere": (
        lambda: START + b'{"Event":"SparkListenerStageCompleted","Stage Info":[3]}\n' + END, "Line 2 is no event"
    ),
    "deep": (
        lambda: START + b'{"Event":"SparkListenerStageCompleted","Stage Info":' + b"[" * 200_000 + b"\n" + END,
        "Line 2 is no event",
    ),
    "deep_plan": (
        lambda: START
        + b'{"Event":"x.SparkListenerSQLExecutionStart","executionId":1,"sparkPlanInfo":'
        + b'{"children":[' * 50_000 + b"]}" * 50_000
        + b'}\n{"Event":"x.SparkListenerSQLExecutionEnd","executionId":1}\n' + END,
        "Line 3 is no event",
    ),
    "garbage": (lambda: START + os.urandom(100_000) + b"\n" + END, "is no event"),
    "only_garbage": (lambda: b"PK\x03\x04" + bytes(range(256)) * 50, "no Spark event log"),
    "broken_zstd": (lambda: _broken(PLAIN.read_bytes()), "zstd data is not valid"),
    "lz4": (lambda: b"LZ4Block\x20" + bytes(12), "The log is compressed with LZ4, which is not read. Write logs with"),
    "snappy": (lambda: b"\x82SNAPPY\x00" + bytes(8), "compressed with Snappy"),
    "lzf": (lambda: b"ZV\x01\x00\x02\x00\x05\x20\x09", "compressed with LZF"),
    "huge_number": (
        lambda: START + b'{"Event":"SparkListenerTaskEnd","Stage ID":1,"Executor Run Time":' + b"9" * 30 + b"}\n" + END,
        "Line 2 is no event",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_log_is_one_line_and_the_others_are_read(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, reason = DAMAGED[kind]
    (tmp_path / "damaged").write_bytes(make())
    shutil.copy(PLAIN, tmp_path / "sound")
    assert run_event_log(tmp_path, json=True) == 0
    printed = capsys.readouterr()
    assert len([one for one in json.loads(printed.out)["findings"] if one["file"].endswith("sound")]) == len(PLANTED)
    lines = printed.err.strip().splitlines()
    assert [line for line in lines if f"{tmp_path / 'damaged'}: " in line and reason in line] == lines
    assert len(lines) == 1


def test_folders_without_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "eventlog_v2_app").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".app.crc").write_bytes(b"crc")
    assert run_event_log(tmp_path) == 2
    assert [line.rpartition("/")[2] for line in capsys.readouterr().err.splitlines()] == [
        "eventlog_v2_app: The folder has no files events_N_…, so the log is empty.",
        "pipe: It is neither a file nor a folder, so it was not opened.",
    ]
    assert run_event_log(tmp_path / "none") == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "eventlog_v2_app").mkdir(mode=0)
    shutil.copy(PLAIN, tmp_path / "sound")
    apps, _, problems = read_folder(tmp_path)
    assert len(apps) == 1
    assert ["permission denied" in problem.reason for problem in problems] == [True]


def test_a_compact_part_replaces_those_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    names = ["appstatus_app.inprogress", *(f"events_{n}_app.zstd" for n in (1, 2, 3, 10)), "events_2_app.zstd.compact"]
    for name in names:
        (folder / name).touch()
    (log,), _ = find_logs(tmp_path)
    assert [part.name for part in log.parts] == ["events_2_app.zstd.compact", "events_3_app.zstd", "events_10_app.zstd"]
    assert log.in_progress


def test_the_report_fits_80_columns_and_repeats_no_join(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_event_log(LOGS) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert lines[-4:] == [
        "35 more joins with less task time; --json prints all of them.",
        "",
        lines[-2],
        "55 joins that Spark runs badly; Dovetail takes 44 of them.",
    ]
    assert run_event_log(ADAPTIVE) == 0
    out = capsys.readouterr().out
    assert re.findall(r"execution (\d+) and 1 more\n.*\n +\(\(x#6L >= lo#16L\) AND \(x#6L <= hi#17L\)\)", out) == ["17"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("[a#1, b#2], [c#3], Inner, (a#1 < f(b#2, 1))", ["[a#1, b#2]", "[c#3]", "Inner", "(a#1 < f(b#2, 1))"]),
        ("BuildRight, Inner", ["BuildRight", "Inner"]),
        ("id:bigint,s:struct<a:int,b:array<int>>,t:date", ["id:bigint", "s:struct<a:int,b:array<int>>", "t:date"]),
        ("", [""]),
    ],
)
def test_lists_of_plans_are_split_outside_brackets(text: str, pieces: list[str]) -> None:
    assert split_top(text) == pieces


def test_a_log_with_very_many_accumulators_and_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: (one.finding.rows, one.finding.stages) for name, one in findings(ADAPTIVE).items()}
    (log,) = find_logs(ADAPTIVE)[0]
    whole, _ = read_log(log)
    assert whole is not None
    assert len(whole.measured.values) > 600
    monkeypatch.setattr(event_log_application, "MOST_ACCUMULATORS", 300)
    monkeypatch.setattr(event_log_reader, "Application", partial(Application, _most=300))
    few, _ = read_log(log)
    assert few is not None
    assert few.measured.has_forgotten
    needed = set().union(*(candidate.accumulators for candidate in few._candidates.values()))
    assert len(few.measured.values) <= 300 + len(needed) < len(whole.measured.values)
    found = {re.findall(r"/\* (\w+) \*/", one.sql or "")[0]: (one.rows, one.stages) for one in few.findings()}
    assert found.keys() == expected.keys()
    same = sum(found[name] == expected[name] for name in found)
    assert same > len(found) / 2, "values of joins that run may be gone, and are unknown then"
    for name, (rows, stages) in found.items():
        assert all(one in (None, two) for one, two in zip(rows, expected[name][0], strict=True))
        assert set(stages) <= set(expected[name][1])


def test_the_stages_that_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log_findings, "MOST_STAGES", 3)
    measured = Measured()
    for stage in (1, 2, 3, 4, 1):
        measured.add_task(stage, 10, 1)
        measured.note(7, stage, stage)
    assert {number: len(stage.millis) for number, stage in measured.stages.items()} == {1: 2, 2: 1, 3: 1}
    assert measured.values == {7: 4}
    assert measured.ran_in((7,)) == (1, 2, 3, 4)


def test_named_statements_are_compared_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = "org.apache.spark.sql.execution.ui."
    lines: list[dict[str, object]] = [{"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}]
    runs: list[tuple[str, list[str], int, int]] = [
        ("Dovetail: as written, 8a3f2c11 · nightly, all", [], 1, 9_000),
        ("Dovetail: as written, 8a3f2c11", [], 2, 11_000),
        ("Dovetail: as written, 8a3f2c11", [], 2, 10_000),  # a part of the one before
        ("Dovetail: band_join, nearest, 8a3f2c11 · SELECT 1", [], 4, 2_000),
        ("SQL on Spark Connect", ["SparkConnect_SessionTag_User__Session_1-2_Tag_Dovetail-band_join-00ff00ff"], 5, 500),
        ("Dovetail plans a query", ["dovetail-planning-1"], 6, 500),
        ("Dovetail: soon, the warehouse", [], 7, 500),
        ("Dovetail: band_join, nearest, 8a3f2c11", [], 8, 100),
        ("Dovetail: as written, 11ff11ff", [], 9, 3_000),
        ("Dovetail: band_join, 11ff11ff", [], 10, 100),
    ]
    failed = (8, 10)
    for number, (description, tags, root, took) in enumerate(runs, 1):
        start = {"executionId": number, "rootExecutionId": root, "description": description, "time": 1_000}
        start |= {"physicalPlanDescription": "", "sparkPlanInfo": {}, "jobTags": tags}
        lines.append({"Event": f"{prefix}SparkListenerSQLExecutionStart"} | start)
        end = {"Event": f"{prefix}SparkListenerSQLExecutionEnd", "executionId": number, "time": 1_000 + took}
        end["errorMessage"] = "[DIVIDE_BY_ZERO] Division by zero." if number in failed else ""
        lines.append(end)
    log = tmp_path / "app-1"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert run_event_log(log) == 0
    printed = capsys.readouterr().out
    assert (
        "Statement 8a3f2c11: 10 s as written (2 runs), 2.0 s rewritten by band_join, nearest (1 run, 1 failed): "
        "5.0 times as fast\n"
    ) in printed
    assert "Statement 11ff11ff: 3.0 s as written (1 run), rewritten by band_join 1 run failed\n" in printed
    assert "Statement 00ff00ff: 500 ms rewritten by band_join (1 run)\n" in printed
    assert printed.count("Statement ") == 3
    assert run_event_log(log, json=True) == 0
    assert json.loads(capsys.readouterr().out)["statements"][0] == {
        "statement": "8a3f2c11",
        "rules": "band_join, nearest",
        "seconds_as_written": [9.0, 11.0],
        "seconds_rewritten": [2.0],
        "failed_as_written": 0,
        "failed_rewritten": 1,
    }
