"""Runs engines in processes of their own, which execute one job after the other and report the time of each."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Answer:
    """What a job took: ``whole`` seconds, with the start of the process where it is the first; ``ran``: of the job.

    ``cpu``: seconds of processor time of the engine's JVM, which other processes on the machine hardly change.
    """

    whole: float
    ran: float
    cpu: float


class Child:
    """A process that answers each line of JSON with one that begins with ``answer``."""

    def __init__(self, command: Sequence[str], more: Mapping[str, str]):
        self.begun: float | None = perf_counter()
        self.cpu = 0.0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **more}
        )

    def run_job(self, job: Mapping[str, Any]) -> Answer:
        """Have a job done."""
        start, self.begun = self.begun or perf_counter(), None
        to, answers = self.process.stdin, self.process.stdout
        assert to is not None
        assert answers is not None
        to.write(f"{json.dumps(job)}\n")
        to.flush()
        for line in answers:
            if line.startswith("answer "):
                found = json.loads(line.removeprefix("answer "))
                whole, before, self.cpu = perf_counter() - start, self.cpu, processor_seconds(found["jvm"])
                return Answer(whole, found["ran"], self.cpu - before)
        raise RuntimeError(f"{' '.join(self.process.args)} ended before its answer; what it printed stands above")


@contextmanager
def child(command: Sequence[str], **more: str) -> Iterator[Child]:
    """Start a process, with more variables in its environment; end it."""
    made = Child(command, more)
    try:
        yield made
    finally:
        made.process.communicate()  # no more jobs: it ends by itself


def processor_seconds(process: int) -> float:
    """Seconds of processor time of a process so far; Linux only, elsewhere nothing is known."""
    stat_file = Path(f"/proc/{process}/stat")
    if not stat_file.exists():
        return float("nan")
    user, system = stat_file.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
