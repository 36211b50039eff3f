"""The switches that leave statements to Spark: an option, a session setting, an environment variable, a hint.

They are for a job that must run tonight: the text goes to Spark unchanged, and nothing is planned.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dovetail.optimizer.warn_once import warn_once
from dovetail.planner.errors import one_of
from dovetail.planner.explain.records import Declined
from dovetail.planner.hints.blocks import NO_DOVETAIL, find_hint

if TYPE_CHECKING:
    from dovetail.executor.session.settings import SessionSettings
    from dovetail.optimizer.options import Options

ENVIRONMENT = "DOVETAIL"
SETTING = "spark.dovetail.enabled"
_OFF = ("off", "false", "0", "no")
_ON = ("on", "true", "1", "yes")


def find_switch(text: str, options: Options, settings: SessionSettings | None = None) -> Declined | None:
    """Return the switch that leaves a statement to Spark, with its place; None if none is off."""
    value = os.environ.get(ENVIRONMENT, "")
    if _is_off(f"The environment variable {ENVIRONMENT}", value):
        return _declined(f"the environment variable {ENVIRONMENT}={value} switches Dovetail off; unset it to plan")
    if not options.enabled:
        return _declined("Options(enabled=False) switches Dovetail off")
    setting = settings.values.get(SETTING, "") if settings else ""
    if _is_off(f"The session setting {SETTING}", setting):
        return _declined(f"the session setting {SETTING}={setting} switches Dovetail off; set it to true to plan again")
    hint = find_hint(text, NO_DOVETAIL)
    return Declined("switch", f"the hint {NO_DOVETAIL} leaves the statement to Spark", hint.place) if hint else None


def _is_off(name: str, value: str) -> bool:
    """Whether a value switches Dovetail off; one that is neither on nor off is a warning, and does not."""
    word = value.strip().lower()
    if word not in (*_OFF, *_ON, ""):
        warn_once(f"{name}={value} is neither on nor off, so Dovetail stays on; {one_of((*_OFF, *_ON), word)}")
    return word in _OFF


def _declined(reason: str) -> Declined:
    return Declined("switch", reason, None)
