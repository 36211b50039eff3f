"""How names are compared: in any case, unless ``spark.sql.caseSensitive`` is set."""

from __future__ import annotations

from collections.abc import Iterable


class NameCase:
    """Compares names as a session does."""

    def __init__(self, case_sensitive: bool) -> None:
        self.case_sensitive = case_sensitive

    def fold(self, name: str) -> str:
        """The form of a name in which two names are compared."""
        return name if self.case_sensitive else name.lower()

    def folded(self, names: Iterable[str]) -> tuple[str, ...]:
        """Several names in that form."""
        return tuple(map(self.fold, names))

    def is_same(self, one: str | None, other: str) -> bool:
        """Whether two names are one name; None is no name."""
        return one is not None and self.fold(one) == self.fold(other)

    def is_among(self, name: str, names: Iterable[str]) -> bool:
        """Whether a name is one of several."""
        return self.fold(name) in map(self.fold, names)
