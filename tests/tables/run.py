"""Real tables of Delta Lake and Iceberg, and real Kafka, on the newest PySpark that their jars are made for.

``python tests/tables/run.py features goldens 1/4`` tries what is a format's own, and runs a quarter of the golden
cases over its tables.  ``killed`` joins streams of tables into a table, and kills the driver ten times, or
``DOVETAIL_KILLS`` times; ``kafka`` joins topics; ``kills`` joins topics into Delta Lake, with as many kills.  Maven
fetches the jars; what it cannot fetch is skipped, with a sentence that says so.  Exit code 1: rows or plans differ.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from format_sessions import DELTA, FORMATS, ICEBERG, PARQUET
from jars import (
    AVRO,
    DELTA_JAR,
    ICEBERG_JAR,
    KAFKA_BROKER,
    KAFKA_SOURCE,
    KAFKA_SOURCE_FOR_DELTA,
    KAFKA_SPARK,
    ROOT,
    SPARK,
    Missing,
    fetch,
)
from known import KNOWN, NOT_EQUAL
from versions import environment

HERE = Path(__file__).parent
KILLS = os.environ.get("DOVETAIL_KILLS", "10")
JARS = {DELTA: DELTA_JAR, ICEBERG: ICEBERG_JAR}
RIGHT, SKIPPED = ("rewritten", "as written"), "not run"


def main(words: list[str]) -> int:
    """Run what the words name; return the number of differences, 1 at most."""
    wrong = 0
    if "features" in words:
        wrong += table("tables", {form: features(form) for form in JARS})
    if "killed" in words:
        wrong += table("killed", {form: run_on_tables(form, "killed_main.py", KILLS) for form in JARS})
    if "goldens" in words:
        wrong += goldens(next((word for word in words if "/" in word), "1/1"))
    if "kafka" in words:
        wrong += table("Kafka", {f"PySpark {KAFKA_SPARK}": kafka()})
    if "kills" in words:
        wrong += table("Kafka into Delta Lake", {f"PySpark {SPARK}": kills()})
    return int(wrong > 0)


def features(form: str) -> list[dict[str, Any]]:
    """Try what is a format's own."""
    catalog = "ice" if form == ICEBERG else "spark_catalog"
    return run_on_tables(form, "features_main.py", catalog)


def goldens(part: str) -> int:
    """Compare plans and rows of golden cases over tables of each format; return the number of differences."""
    lines = {form: run_on_tables(form, "goldens_main.py", part) for form in FORMATS}
    over_parquet = {line["case"]: line for line in lines[PARQUET] if "case" in line}
    wrong = 0
    for form in JARS:
        cases = [line for line in lines[form] if "case" in line]
        if not cases:
            wrong += any(line["what"] != SKIPPED for line in lines[form])
            print(form, *(line.get("seen") for line in lines[form]))
            continue
        for line in lines[form]:
            if "not held" in line:
                print(f"{form}: {line['table']} is a view, since the format cannot hold it: {line['not held']}")
            elif "seen" in line:
                wrong += 1
                print(f"{form}: {line['what']} after {len(cases)} of {len(over_parquet)} cases: {line['seen']}")
        equal = sum(line.get("rows") == "equal" for line in cases)
        for line in cases:
            for what, seen in differences(line, over_parquet[line["case"]]):
                known = NOT_EQUAL.get((form, line["case"]))
                wrong += known is None
                print(f"{form}: {line['case']}: {what}: {seen}" + (f" (known: {known})" if known else ""))
        print(f"{form}: {len(cases)} cases planned, {equal} rewritings with the rows of plain Spark")
    return wrong


def differences(here: dict[str, Any], there: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How a case over a format differs from the same over Parquet, and its rows from those of plain Spark."""
    for what in ("error", "rules", "sql"):
        if here.get(what) != there.get(what):
            yield what, f"{here.get(what)} instead of {there.get(what)}"
            break
    if here.get("rows", "equal") != "equal" and here.get("rows") != there.get("rows"):
        yield "rows", here["rows"]


def table(title: str, seen: dict[str, list[dict[str, Any]]]) -> int:
    """Print a table of what was tried; return how often it was wrong."""
    names = dict.fromkeys((line["group"], line["what"]) for lines in seen.values() for line in lines)
    found = {column: {(line["group"], line["what"]): line["seen"] for line in lines} for column, lines in seen.items()}
    print(f"| {title} | " + " | ".join(seen) + " |")
    wrong = 0
    for name in names:
        cells = [found[column].get(name, "–") for column in found]
        wrong += sum(name[1] != SKIPPED and cell not in (*RIGHT, "–") and not is_known(name[1], cell) for cell in cells)
        print(f"| {': '.join(name)} | " + " | ".join(cells) + " |")
    return wrong


def is_known(what: str, seen: str) -> bool:
    """Whether a difference is one of the format or of Spark alone."""
    return any(re.search(pattern, seen) for known, pattern in KNOWN.items() if known in what)


def kafka() -> list[dict[str, Any]]:
    """Run joins of topics on a broker of its own."""
    python = environment(KAFKA_SPARK)
    try:
        spark, broker = [*fetch(KAFKA_SOURCE, python), *fetch(AVRO, python)], fetch(KAFKA_BROKER)
    except Missing as missing:
        return [{"group": "kafka", "what": SKIPPED, "seen": str(missing)}]
    return run(python, "kafka_main.py", ",".join(map(str, spark)), ",".join(map(str, broker)))


def kills() -> list[dict[str, Any]]:
    """Run a join of topics into a table of Delta Lake, whose driver is killed again and again."""
    python = environment(SPARK)
    try:
        spark = [*fetch(DELTA_JAR, python), *fetch(KAFKA_SOURCE_FOR_DELTA, python)]
        broker = fetch(KAFKA_BROKER)
    except Missing as missing:
        return [{"group": "kills", "what": SKIPPED, "seen": str(missing)}]
    jars = (",".join(map(str, spark)), ",".join(map(str, broker)))
    return run(python, "kafka_kills_main.py", *jars, KILLS)


def run_on_tables(form: str, program: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a program on a session of a format; a sentence if its jars cannot be had."""
    python = environment(SPARK)
    try:
        jars = fetch(JARS[form], python) if form in JARS else []
    except Missing as missing:
        return [{"group": form, "what": SKIPPED, "seen": str(missing)}]
    return run(python, program, form, ",".join(map(str, jars)), *arguments)


def run(python: Path, program: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a program of this folder; return its lines."""
    path = ":".join(map(str, (ROOT, ROOT / "tests", HERE)))
    settings = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": path}
    command = [str(python), str(HERE / program), *arguments]
    with subprocess.Popen(
        command, cwd=python.parent, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        output, errors = process.communicate(timeout=7200)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if process.returncode:
        ended = " ".join(errors.splitlines()[-1:]) or "nothing printed"
        lines.append({"group": program, "what": "ended", "seen": ended})
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
