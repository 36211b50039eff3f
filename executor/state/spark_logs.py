"""Compares the logs of Spark in a checkpoint with the manifests beside them.

    CHECKPOINT/metadata          the id of the query
               offsets/12        written before epoch 12 begins: what it reads of each source
               sources/0/12      what source 0, of files, has read in its batch 12; 19.compact has all up to 19
               commits/12        written after epoch 12 has ended

The manifest of an epoch is written between the two, so that both logs may be one epoch apart from the newest one, and
no more.  Where they are, files have been lost, and Spark would read rows once more, or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from dovetail.executor.state.folder import Folder
from dovetail.planner.state.refusals import damaged


class Progress(NamedTuple):
    """The newest epoch that has begun, and the newest that has ended; -1 for none."""

    begun: int
    ended: int


def read_progress(checkpoint: Folder) -> Progress:
    """Read how far the query of a checkpoint has come."""
    return Progress(_newest(checkpoint, "offsets"), _newest(checkpoint, "commits"))


def check_logs(checkpoint: Folder, epoch: int) -> None:
    """Raise ``StateError`` if the newest offsets and commits do not fit the newest manifest, of ``epoch``."""
    begun, ended = read_progress(checkpoint)
    if max(begun - 1, ended) > epoch:
        raise damaged(f"{checkpoint.below(f'dovetail/epoch-{max(begun - 1, ended):012}.json')} is missing")
    for log, number, least in (("offsets", begun, epoch), ("commits", ended, epoch - 1)):
        if number < least:
            raise damaged(f"{checkpoint.below(f'{log}/{least}')} is missing")


def check_sources(checkpoint: Folder) -> None:
    """Raise ``StateError`` if the id of the query, or the log of a source of files, is missing."""
    begun = _newest(checkpoint, "offsets")
    if begun >= 0 and checkpoint.read("metadata") is None:
        raise damaged(f"{checkpoint.below('metadata')} is missing")
    for source, batch in _file_batches(checkpoint.read(f"offsets/{begun}") or ""):
        there = {f.name for f in checkpoint.inside(f"sources/{source}")}
        if batch >= 0 and not there & {str(batch), f"{batch}.compact"}:
            raise damaged(f"{checkpoint.below(f'sources/{source}/{batch}')} is missing")


def _newest(checkpoint: Folder, log: str) -> int:
    """The newest epoch in a log; -1 for none."""
    return max((int(f.name) for f in checkpoint.inside(log) if f.name.isdigit()), default=-1)


def _file_batches(offsets: str) -> Iterator[tuple[int, int]]:
    """The sources of files by their numbers, with the batch that each has come to."""
    for source, line in enumerate(offsets.splitlines()[2:]):
        try:
            yield source, int(json.loads(line)["logOffset"])
        except (ValueError, KeyError, TypeError):
            continue
