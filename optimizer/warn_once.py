"""Warnings about the surroundings of a job, such as its settings and disks: one for each text in a process."""

from __future__ import annotations

import logging
from functools import cache


@cache
def warn_once(text: str) -> None:
    """Log a WARNING, unless this process has logged the same one."""
    logging.getLogger("dovetail.plan").warning("%s", text)
