"""Options from the settings of a session: ``spark.dovetail.generic_plan=true``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dovetail.optimizer.options import Options
from dovetail.planner.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.dovetail."


def options_of_session(session: SparkSession, given: Mapping[str, str] | None = None) -> Options:
    """Read the options of a session; those ``given`` by name win.

    Raises ``OptionError`` for an unknown option or an invalid value.
    """
    from dovetail.executor.session.settings import all_settings

    settings = all_settings(session)
    found = {name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(PREFIX)}
    try:
        options = Options.from_mapping({**found, "enabled": True})  # the switch is read for each statement
    except OptionError as error:
        raise OptionError(f"in a setting {PREFIX}… of the session: {error}") from None
    return Options.from_mapping(dict(given or {}), options)
