"""Options from the settings of a session: ``spark.dovetail.generic_plan=true``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from optimizer.options import Options
from planner.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.dovetail."


def options_of_session(session: SparkSession) -> Options:
    """Read the options of a session.  Raises ``OptionError`` for an unknown option or an invalid value."""
    names = [field.name for field in fields(Options)]
    settings = getattr(session.conf, "getAll", None)  # from PySpark 4 on; unknown names are found there only
    if settings is None:
        found = {f"{PREFIX}{name}": session.conf.get(f"{PREFIX}{name}", None) for name in names}
        settings = {name: value for name, value in found.items() if value is not None}
    given = {name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(PREFIX)}
    try:
        return Options.from_mapping(given)
    except OptionError as error:
        raise OptionError(f"in a setting {PREFIX}… of the session: {error}") from None
