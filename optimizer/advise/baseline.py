"""The baseline of nested loops: a committed file of those that are known, so that CI fails only on new ones.

A nested loop is known by its file, kind, sides and condition, and not by its line, which moves with each edit.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from dovetail.optimizer.advise.report import LoopFinding, Report, StatementAdvice
from dovetail.planner.errors import InputError

Key = tuple[str, str, str, str, str]


def read_baseline(path: str) -> Counter[Key]:
    """The known nested loops of a file.  Raises ``InputError``."""
    try:
        loops = json.loads(Path(path).read_text(encoding="utf-8-sig"))["nested_loops"]
        return Counter((x["file"], x["kind"], x["left"], x["right"], x["condition"]) for x in loops)
    except FileNotFoundError as error:
        raise InputError(f"--baseline {path}: there is no such file; write it with --write-baseline") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"--baseline {path} is not a baseline; write it again with --write-baseline") from error


def format_baseline(report: Report) -> str:
    """The baseline of the nested loops that remain, in the order of files and places."""
    found = [(s.file, loop.place, loop) for s in report.statements for loop in s.remaining_loops]
    known = sorted(found, key=lambda one: one[:2])
    loops = [
        {"file": file, "kind": loop.kind, "left": loop.left, "right": loop.right, "condition": loop.condition}
        for file, _, loop in known
    ]
    return json.dumps({"nested_loops": loops}, indent=2, ensure_ascii=False) + "\n"


def new_loops(report: Report, known: Counter[Key]) -> list[tuple[StatementAdvice, LoopFinding]]:
    """The nested loops that remain and are not known."""
    left, found = Counter(known), []
    for statement in report.statements:
        for loop in statement.remaining_loops:
            key = (statement.file, loop.kind, loop.left, loop.right, loop.condition)
            if left[key]:
                left[key] -= 1
            else:
                found.append((statement, loop))
    return found
