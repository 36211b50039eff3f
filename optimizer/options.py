"""Options: thresholds, disabled rules, strictness."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, TypeVar

from dovetail.planner.catalog.cost import Thresholds
from dovetail.planner.errors import OptionError, one_of
from dovetail.rules.batches import RULES

T = TypeVar("T")


def _with_checked_names(options: type[T]) -> type[T]:
    """Let the constructor raise ``OptionError`` for an unknown option, with the nearest one."""
    init = options.__init__

    @wraps(init)
    def checked(self: T, *args: Any, **given: Any) -> None:
        _check_names(given)
        init(self, *args, **given)

    options.__init__ = checked  # type: ignore[assignment]
    return options


@_with_checked_names
@dataclass(frozen=True)
class Options(Thresholds):
    """Options of an optimizer; immutable.

    Raises ``OptionError`` for an invalid value or an unknown rule.
    """

    enabled: bool = True
    """False passes every statement to Spark unchanged and plans nothing.  The setting ``spark.dovetail.enabled=false``,
    the environment variable ``DOVETAIL=off`` and the hint ``/*+ NO_DOVETAIL */`` do so, too."""

    mode: str = "all"
    """``all`` runs every rewriting.  ``shadow`` runs every statement as written, and only reports the rewriting.
    ``canary`` runs the rewritings of a ``share`` of the statements, and the others as ``shadow`` does.  Statements that
    Spark cannot run as written, such as lookup joins, run in every mode."""

    share: float = 0.1
    """With ``mode=canary``, the share of the statements whose rewritings run, by a hash of their text.  A greater
    number runs more of them, and those of a smaller number as well."""

    statement_log: str = ""
    """A file, or a folder that ends in ``/``, to which each statement adds a line of JSON with its text, its plan and
    the estimated gain; ``dovetail shadow-report`` reads it.  In a folder each process has a file of its own.  A path
    that cannot be written is a WARNING, and the statements run."""

    planning_seconds: float = 5.0
    """The time limit of measurements, in seconds.  Then planning continues without the measurements that are missing,
    and a statement whose planning takes twice as long runs as written.  Until an optimizer has rewritten a statement,
    or has reached that second limit once, both limits are six times as long, because Python and the JVM still load
    code.  The default of commands such as ``dovetail run`` is 600, and with ``strict`` there is no limit.  A greater
    number plans slow catalogs to the end."""

    force: bool = False
    """Apply every sound rewriting regardless of its cost.  Use it in tests on small tables."""

    disabled_rules: tuple[str, ...] = ()
    """Names of rules to disable; ``dovetail rules`` lists all rules."""

    generic_plan: bool = False
    """Make a generic plan: one for SQL that is stored and runs over other rows later.  Planning then measures nothing,
    and no interval is copied to many bins, however long it is; on today's rows such a plan is slower.  ``dovetail
    rewrite``, streams in ``opt.sql`` and Spark's own join over bins always make generic plans.  State modules plan each
    epoch by its own rows."""

    strict: bool = False
    """Raise an error when an internal check fails, instead of running the original query.  For tests of rules."""

    strict_hints: bool = False
    """Raise an error instead of a warning for a hint that matches no relation, is malformed, or has no effect."""

    def __post_init__(self) -> None:
        given: object = self.disabled_rules
        if isinstance(given, str):
            raise OptionError(f"disabled_rules takes a list of names, not the text {self.disabled_rules!r}")
        object.__setattr__(self, "disabled_rules", tuple(self.disabled_rules))
        known = [r.name for r in RULES]
        for name in self.disabled_rules:
            if name not in known:
                raise OptionError(f"there is no rule {name!r}; {one_of(known, name)}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "str" and not isinstance(value, str):
                raise OptionError(f"{field.name} is a text, not {value!r}")
            if field.type == "bool" and not isinstance(value, bool):
                raise OptionError(f"{field.name} is true or false, not {value!r}")
            if field.type in ("int", "float") and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise OptionError(f"{field.name} is a number, not {value!r}")
            if field.type in ("int", "float") and not value >= _LEAST.get(field.name, 0):
                raise OptionError(f"{field.name} is at least {_LEAST.get(field.name, 0)}, not {value!r}")
        if self.mode not in MODES:
            raise OptionError(f"there is no mode {self.mode!r}; {one_of(MODES, self.mode)}")
        if self.share > 1:
            raise OptionError(f"share is at most 1, not {self.share!r}")

    @classmethod
    def from_mapping(cls, given: dict[str, Any], base: Options | None = None) -> Options:
        """Create options from names and values of a command line or of a golden plan's header.

        Converts text to the type of the option.  Raises ``OptionError`` for an unknown name.
        """
        _check_names(given)
        known = {f.name: f for f in fields(cls)}
        parsed: dict[str, Any] = {}
        for name, value in given.items():
            parsed[name] = _parse(name, str(known[name].type), value) if isinstance(value, str) else value
        return replace(base or cls(), **parsed)


def _check_names(given: Iterable[str]) -> None:
    known = [field.name for field in fields(Options)]
    if odd := next((name for name in given if name not in known), None):
        raise OptionError(f"There is no option {odd!r}; {one_of(known, odd)}")


MODES = ("all", "canary", "shadow")
_LEAST = {"level_spread": 1, "level_reach": 1}


def _parse(name: str, kind: str, text: str) -> Any:
    text = text.strip()
    try:
        match kind:
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return int(text.replace("_", ""))
            case "float":
                return float(text)
            case "str":
                return text
            case _:
                return tuple(_split(text))
    except (KeyError, ValueError) as error:
        possible = {"bool": "true or false", "int": "a whole number", "float": "a number"}.get(kind, "a list of names")
        raise OptionError(f"{name} cannot be {text!r}; it is {possible}") from error


def _split(text: str) -> Iterable[str]:
    return (part.strip() for part in text.split(",") if part.strip())
