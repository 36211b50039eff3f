"""Rewritings of every kind on the engines below Spark: Gluten with Velox, Comet, and Sail.

``python tests/engines/engines_main.py comet gluten sail`` compares the rows with those of plain Spark of the same
version, counts the operators that stay native, and times the original and the rewriting.  PyPI and Maven serve the
engines; what they do not serve is skipped, with a sentence that says so.  ``scale=4`` takes four times the rows, and
``"kind=band, left"`` one kind.  Exit code 1: rows differ, or an engine does not run a rewriting.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tables"))

from engine_sessions import ENGINES, SAIL, Engine
from jars import ROOT, SPARK, Missing, fetch
from versions import environment

HERE = Path(__file__).parent
PLAIN = "plain"
LIMIT = 30  # seconds of a query as written


def main(words: list[str]) -> int:
    """Run the engines that the words name, or all; return 1 if one of them is wrong."""
    scale = next((int(word.partition("=")[2]) for word in words if word.startswith("scale=")), 1)
    kinds = [word.partition("=")[2] for word in words if word.startswith("kind=")]
    chosen = [word for word in words if word in ENGINES] or list(ENGINES)
    seen: dict[str, dict[str, Any]] = {}
    plain: dict[str, dict[str, Any]] = {}
    for name in chosen:
        engine = ENGINES[name]
        try:
            python, jars = python_of(engine), jars_of(engine)
        except Missing as missing:
            print(f"{engine.name} is skipped: {missing}")
            continue
        below = spark_below(engine)
        if below not in plain:
            plain[below] = run(environment(below), PLAIN, [], scale, kinds)
        seen[name] = run(python, name, jars, scale, kinds)
    return table(seen, plain)


def python_of(engine: Engine) -> Path:
    """Return the Python of an engine's environment, which is made unless it is there."""
    python = environment(engine.spark)
    if engine.package:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*pip, engine.package, "tzdata"], check=False).returncode:
            raise Missing(f"pip could not install {engine.package}.")
    return python


def jars_of(engine: Engine) -> list[Path]:
    """Return the jars of an engine, from Maven or from its package."""
    if engine.artifact:
        return fetch(engine.artifact, environment(engine.spark))
    folder = environment(engine.spark).parent.parent
    return sorted(folder.glob("lib/python*/site-packages/velox_spark/jars/gluten-velox-bundle-*.jar"))


def spark_below(engine: Engine) -> str:
    """Return the version of plain Spark that an engine is compared with."""
    return SPARK if engine is SAIL else engine.spark


def run(python: Path, name: str, jars: list[Path], scale: int, kinds: list[str]) -> dict[str, Any]:
    """Run the queries on an engine; return what each showed."""
    path = ":".join(map(str, (ROOT, ROOT / "tests", ROOT / "tests" / "tables", HERE)))
    settings = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": path, "RUST_LOG": "off"}
    words = [name, ",".join(map(str, jars)), str(ROOT / ".data" / "engines" / str(scale)), str(scale), str(LIMIT)]
    command = [str(python), str(HERE / "kinds_main.py"), *words, *kinds]
    with subprocess.Popen(
        command, cwd=python.parent, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        output, errors = process.communicate(timeout=7200)
    found = {line["kind"]: line for line in map(json.loads, output.splitlines()) if "kind" in line}
    if process.returncode:
        found["start"] = {"error": " ".join(errors.splitlines()[-1:]) or "nothing printed"}
    return found


def table(seen: dict[str, dict[str, Any]], plain: dict[str, dict[str, Any]]) -> int:
    """Print native operators, as written and rewritten, and the gain; return 1 if something is wrong."""
    print("| kind | " + " | ".join(ENGINES[name].name for name in seen) + " |")
    print("| :-- |" + " --: |" * len(seen))
    wrong, notes = 0, []
    for kind in dict.fromkeys(kind for lines in seen.values() for kind in lines):
        cells = []
        for name, lines in seen.items():
            cell, right, note = shown(lines.get(kind, {}), plain[spark_below(ENGINES[name])].get(kind, {}))
            wrong += not right
            cells.append(cell)
            if note:
                notes.append(f"{ENGINES[name].name}, {kind}: {note}")
        print(f"| {kind} | " + " | ".join(cells) + " |")
    print(*notes, sep="\n")
    return int(wrong > 0)


def shown(line: dict[str, Any], plain: dict[str, Any]) -> tuple[str, bool, str]:
    """Return the cell of a kind, whether it is right, and what of the rewriting runs in the JVM."""
    if "error" in line:
        return line["error"], False, ""
    before, after = line.get("original", {}), line.get("rewriting")
    if "refused" in before and not after:
        return "not run by the engine", True, before["refused"]
    expected = plain.get("original", {}).get("digest") or plain.get("rewriting", {}).get("digest")
    if not after:
        return "as written", True, ""
    for what, found in (("as written", before), ("rewritten", after)):
        if "digest" in found and found["digest"] != expected:
            return f"{what}: {found['rows']} other rows", what == "as written", ""
    seconds = before.get("stopped", before.get("seconds"))
    gain = f"{'> ' if 'stopped' in before else ''}{seconds / after['seconds']:.1f} ×" if seconds else "only rewritten"
    native = f"{before.get('native', '–')}/{before.get('operators', '–')} → {after['native']}/{after['operators']}, "
    return (native if after["operators"] else "") + gain, True, ", ".join(after["jvm"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
