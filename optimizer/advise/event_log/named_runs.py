"""Runs of statements that Dovetail has named: the same statement as written and rewritten, before and after."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

_NAME = re.compile(r"Dovetail: (?P<rules>[^·]+), (?P<hash>[0-9a-f]{8})(?: · (?P<own>.*))?", re.DOTALL)
_TAG = re.compile(r"(?:.*[-_])?Dovetail-(?P<rules>[\w-]+)-(?P<hash>[0-9a-f]{8})")
_AS_WRITTEN = ("as written", "as-written")


@dataclass(frozen=True)
class StatementName:
    """The name of an execution: the hash of its statement, its rules, and the user's own description."""

    hash: str
    rules: str
    own: str = ""

    @classmethod
    def read(cls, description: str, tags: Iterable[object] = ()) -> StatementName | None:
        """Read a description, or the tags of Spark Connect; None if Dovetail has not named the execution."""
        if found := _NAME.fullmatch(description):
            return cls(found["hash"], found["rules"], found["own"] or "")
        found = next((match for tag in tags if (match := _TAG.fullmatch(str(tag)))), None)
        return cls(found["hash"], found["rules"], description) if found else None


@dataclass(frozen=True)
class NamedRun:
    """One execution of a named statement, and its seconds."""

    name: StatementName
    seconds: float
    failed: bool = False

    @property
    def is_rewritten(self) -> bool:
        """Whether the rewriting ran."""
        return self.name.rules not in _AS_WRITTEN


@dataclass(frozen=True)
class Comparison:
    """The seconds of the runs of one statement, as written and rewritten, without the number of runs that failed."""

    hash: str
    rules: str
    written: tuple[float, ...]
    rewritten: tuple[float, ...]
    failed_written: int = 0
    failed_rewritten: int = 0

    @property
    def ratio(self) -> float | None:
        """How many times as fast the rewriting is, by the medians; None if one of both has not ended well."""
        if not self.written or not self.rewritten:
            return None
        return median(self.written) / max(median(self.rewritten), 0.001)

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "statement": self.hash,
            "rules": self.rules,
            "seconds_as_written": list(self.written),
            "seconds_rewritten": list(self.rewritten),
            "failed_as_written": self.failed_written,
            "failed_rewritten": self.failed_rewritten,
        }


def compare_runs(runs: Iterable[NamedRun]) -> list[Comparison]:
    """Group runs by statement; those with the most seconds come first."""
    groups: dict[str, list[NamedRun]] = {}
    for run in runs:
        groups.setdefault(run.name.hash, []).append(run)
    found = []
    for hash_, group in groups.items():
        rules = next((run.name.rules for run in group if run.is_rewritten), "")
        good = [run for run in group if not run.failed]
        written, rewritten = (tuple(r.seconds for r in good if r.is_rewritten is side) for side in (False, True))
        failed = Counter(run.is_rewritten for run in group if run.failed)
        found.append(Comparison(hash_, rules, written, rewritten, failed[False], failed[True]))
    return sorted(found, key=lambda one: -sum(one.written + one.rewritten))
