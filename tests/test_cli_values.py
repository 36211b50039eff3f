"""Every option of every command with values of every wrong type: a message and an exit code, and never a traceback."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import dovetail
from dovetail.optimizer.cli.main import app
from effort import examples
from wrong_values import TEXTS

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
CODES = {0, 1, 2, 3}  # 4 would be a fault of ours
QUERY = "SELECT a.id FROM t a JOIN t b ON a.id = b.id"
BASE: dict[str, list[str]] = {
    "run": [f"--sql={QUERY}", "--table=t={home}/t.csv"],
    "explain": [f"--sql={QUERY}", "--table=t={home}/t.csv"],
    "rewrite": [f"--sql={QUERY}", "--table=t={home}/t.csv"],
    "verify": [f"--sql={QUERY}", "--table=t={home}/t.csv"],
    "stream": [
        "--sql=SELECT * FROM s",
        "--stream=s={home}/s",
        "--checkpoint={new}/c",
        "--out={new}/o",
        "--trigger=available now",
    ],
    "materialize": ["--sql=SELECT count(*) AS n FROM s", "--as=v", "--stream=s={home}/s", "--state={new}/state"],
    "estimate": [f"--sql={QUERY.replace('a.id FROM', 'count(*) AS n FROM')}", "--table=t={home}/t.csv"],
    "report": [f"--sql={QUERY}", "--catalog={home}/t.toml"],
    "advise": ["{home}/t.sql", "--catalog={home}/t.toml"],
    "shadow-report": ["{home}/statements.jsonl"],
    "state": ["{home}"],
    "rules": [],
    "completion": ["bash"],
    "doctor": [],
}
ENDLESS = {("materialize", "--every"), ("stream", "--trigger")}  # a value that is right runs until Ctrl-C
ELSEWHERE = {"--remote", "--master", "--event-log"}  # another Spark, or none: in `test_in_a_process_of_its_own`


def options() -> Iterator[tuple[str, str]]:
    """Every command with each of its options that take a value, and with its argument."""
    for command in BASE:
        for option in COMMANDS[command].params:
            if option.param_type_name == "argument":
                yield command, ""
            elif not option.is_flag and option.opts[0] not in ELSEWHERE:
                yield command, option.opts[0]


OPTIONS = list(options())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("values")
    (home / "t.csv").write_text("id,x\n1,2\n3,4\n")
    (home / "t.sql").write_text(QUERY)
    (home / "t.toml").write_text('[tables.t]\ncolumns = { id = "BIGINT", x = "INT" }\n')
    (home / "statements.jsonl").write_text("")
    (home / "s").mkdir()
    (home / "s" / "0.json").write_text(json.dumps({"id": 1, "ts": "2024-01-01 00:00:00"}))
    return home


def test_every_command_and_option_is_here() -> None:
    # the demo makes data for a minute: in `test_demo.py`; exec replaces this process: in `test_program.py`
    assert set(BASE) | {"demo", "exec"} == set(COMMANDS)
    assert len(OPTIONS) > 60


@pytest.mark.hypothesis
def test_values_of_every_wrong_type(spark: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()

    @settings(max_examples=examples(2))
    @given(st.sampled_from(OPTIONS), st.sampled_from(TEXTS))
    def check(place: tuple[str, str], value: str) -> None:
        if words := command_line(place, value, home, tmp_path / str(next(numbers))):
            check_answer(dovetail(*words, stdin=""), place, value)

    check()


def test_a_note_about_a_stream_is_printed_without_control_characters(spark: Any, home: Path, tmp_path: Path) -> None:
    words = ["stream", "--sql=a\0b", f"--stream=s={home}/s", f"--checkpoint={tmp_path}/c", f"--out={tmp_path}/o"]
    done = dovetail(*words, stdin="")
    assert "Spark's own stream-stream join runs: A\\x00B is not a query" in done.stderr
    assert "\0" not in done.stderr
    assert done.exit_code in CODES


def command_line(place: tuple[str, str], value: str, home: Path, new: Path) -> list[str]:
    """A command that is right but for one option or its argument; nothing where it would not end."""
    command, option = place
    if place in ENDLESS and value in ("0", "1.5"):
        return []
    words = [word.format(home=home, new=new) for word in BASE[command]]
    kept = [word for word in words if not word.startswith(f"{option}=")]
    if option:
        return [command, *kept, f"{option}={value}"]
    return [command, *(word for word in kept if word.startswith("--") and not word.startswith("--sql=")), "--", value]


def check_answer(done: Any, place: tuple[str, str], value: str) -> None:
    said = done.stderr
    assert done.exit_code in CODES, (done.exit_code, said)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in said
    assert "\x1b[31m" not in said
    assert "\0" not in said
    assert len(said) < 20_000
    if done.exit_code:
        assert "rror" in said, said  # `error: …`, or the box of a usage error
    command, option = place
    if done.exit_code == 2 and option not in ("--sql", "") and command != "state":  # which has no state to look at
        names = option, option.lstrip("-").replace("-", "_"), Path(value).name  # an argument of Python, or a full path
        named = any(name in said for name in names)
        assert named, (place, value, said)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["run", "--sql", "SELECT 1", "--remote", "sc://[::"], 2, "a server is named as sc://host:port"),
        (["run", "--sql", "SELECT 1", "--remote", f"sc://{'x' * 70}"], 3, "no Spark Connect server answers"),
        (["run", "--sql", "SELECT 1", "--master", "local[0]"], 2, "--master 'local[0]': write local[*]"),
        (["run", "--sql", "SELECT 1", "--master", ""], 2, "--master"),
        (["run", b"\xff.sql"], 2, "is not text in UTF-8"),
        (["run", "--sql", b"SELECT '\xff'"], 2, "is not text in UTF-8"),
        (["state", "gone"], 2, "gone: there is no such folder"),
        (["state", "file:."], 2, "file:. holds no state"),
        (["demo", "--data", "/dev/null/x"], 2, "--data /dev/null/x: not a directory"),
        (["demo", "--data", " "], 2, "--data FOLDER is missing"),
        (["runn"], 2, "No such command"),
    ],
)
def test_in_a_process_of_its_own(given: list[Any], code: int, said: str) -> None:
    done = process(*given)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    for words, env in ((["--debug", "run", "gone.sql"], {}), (["run", "gone.sql"], {"DOVETAIL_DEBUG": "1"})):
        done = process(*words, **env)
        assert done.returncode == 2
        assert "Traceback" in done.stderr
        assert done.stderr.endswith("error: there is no file gone.sql\n")
    assert process("--debug").stderr.endswith("error: Name a command; `dovetail --help` lists them\n")
    assert process("run", "gone.sql").stderr == "error: there is no file gone.sql\n"


def process(*words: Any, **env: str) -> subprocess.CompletedProcess[str]:
    main = [sys.executable, "-c", "from dovetail.optimizer.cli.main import main; main()"]
    return subprocess.run(
        [*main, *words],
        env=os.environ | env,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )


def test_exit_codes_are_in_the_docs() -> None:
    from dovetail.optimizer.failures import Exit

    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text()
    assert all(f"| {code.value} |" in page for code in Exit)
