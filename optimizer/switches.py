"""The switches that leave statements to Spark: an option, a session setting, an environment variable, a hint.

They are for a job that must run tonight: the text goes to Spark unchanged, and nothing is planned.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dovetail.planner.explain.records import Declined
from dovetail.planner.hints.blocks import NO_DOVETAIL, find_hint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dovetail.optimizer.options import Options

ENVIRONMENT = "DOVETAIL"
SETTING = "spark.dovetail.enabled"
_OFF = ("off", "false", "0", "no")


def find_switch(text: str, options: Options, session: SparkSession | None = None) -> Declined | None:
    """Return the switch that leaves a statement to Spark, with its place; None if none is off."""
    value = os.environ.get(ENVIRONMENT, "")
    if value.strip().lower() in _OFF:
        return _declined(f"the environment variable {ENVIRONMENT}={value} switches Dovetail off; unset it to plan")
    if not options.enabled:
        return _declined("Options(enabled=False) switches Dovetail off")
    setting = str(session.conf.get(SETTING, "true")) if session is not None else "true"
    if setting.strip().lower() in _OFF:
        return _declined(f"the session setting {SETTING}={setting} switches Dovetail off; set it to true to plan again")
    hint = find_hint(text, NO_DOVETAIL)
    return Declined("switch", f"the hint {NO_DOVETAIL} leaves the statement to Spark", hint.place) if hint else None


def _declined(reason: str) -> Declined:
    return Declined("switch", reason, None)
