"""Options from the settings of a session: ``spark.dovetail.generic_plan=true``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from dovetail.optimizer.options import Options
from dovetail.optimizer.warn_once import warn_once
from dovetail.planner.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "spark.dovetail."


def options_of_session(session: SparkSession, given: Mapping[str, str] | None = None) -> Options:
    """Read the options of a session; those ``given`` by name win.

    Raises ``OptionError`` for an unknown option or an invalid value.
    """
    try:
        options = Options.from_mapping(_settings_of(session))
    except OptionError as error:
        raise OptionError(f"in a setting {PREFIX}… of the session: {error}") from None
    return Options.from_mapping(dict(given or {}), options)


def warn_of_unread_settings(session: SparkSession, options: Options) -> None:
    """Warn of each setting of a session that differs from the ``options`` that an optimizer was given."""
    for name, value in _settings_of(session).items():
        with suppress(OptionError):
            if getattr(Options.from_mapping({name: value}), name) == getattr(options, name):
                continue
        warn_once(
            f"The setting {PREFIX}{name}={value} has no effect: this optimizer was given Options, or --option on the "
            f"command line, and does not read settings. Give {name} there"
        )


def _settings_of(session: SparkSession) -> dict[str, str]:
    """The settings by the names of options, but for ``enabled``: that switch is read for each statement."""
    from dovetail.executor.session.settings import all_settings

    settings = all_settings(session).items()
    found = {name.removeprefix(PREFIX): value for name, value in settings if name.startswith(PREFIX)}
    found.pop("enabled", None)
    return found
