"""Versioned tables: each row is valid from its time until the next version of its key.

    FROM (SELECT named_struct('c0', __dt_r_0, 'c1', __dt_r_1) AS __dt_r_row, __dt_r_from, __dt_r_to
          FROM (SELECT currency AS __dt_r_0, rate AS __dt_r_1, since AS __dt_r_from,
                       lead(since) OVER (PARTITION BY currency ORDER BY since) AS __dt_r_to
                FROM Rates)) AS __dt_r
    JOIN LATERAL (SELECT __dt_r_row.c0 AS currency, __dt_r_row.c1 AS rate) AS r

The second line gives the columns back their names, so that only ``__dt_r`` has the ends of the validity.  Spark makes
one projection of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dovetail.planner.expr import Scalar, quote
from dovetail.planner.logical import Relation
from dovetail.planner.rendered import NameGenerator, Rendered
from dovetail.planner.tree import Node, plan_node
from dovetail.planner.types.schema import Column

LAST = "timestamp_micros(9223372036854775807)"
"""The last moment there is: a version that no other follows is valid until then."""


@dataclass(frozen=True)
class Validity:
    """A table with versions, as a query names it: ``text`` in FROM, its columns and new names for them."""

    text: str
    alias: str
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    key: tuple[str, ...]
    valid_from: Column

    @property
    def hidden(self) -> str:
        """The relation that has the ends."""
        return f"__dt_{self.alias}"

    @property
    def ends(self) -> tuple[Column, Column]:
        """The columns of it in which a version begins and ends."""
        return tuple(Column(f"{self.hidden}_{end}", self.valid_from.type) for end in ("from", "to"))  # type: ignore[return-value]

    @property
    def is_timed(self) -> bool:
        """Whether the last version ends at the last moment rather than at NULL."""
        return self.valid_from.type is not None and self.valid_from.type.name == "timestamp"

    def holds(self, time: str) -> tuple[str, str]:
        """The conditions under which a version is valid at a time."""
        low, high = (quote(end.name) for end in self.ends)
        time = time if re.fullmatch(r"[\w.`]+", time) else f"({time})"
        return f"{time} >= {low}", f"{time} < {high}" if self.is_timed else f"({time} < {high} OR {high} IS NULL)"

    @property
    def relation(self) -> str:
        """The text of the relation."""
        low, high = (quote(end.name) for end in self.ends)
        since, key = quote(self.valid_from.name), ", ".join(map(quote, self.key))
        row = quote(f"{self.hidden}_row")  # a struct, since LATERAL takes comments and lengths of CHAR from a column
        inner = [quote(f"{self.hidden}_{n}") for n in range(len(self.columns))]
        items = [f"{quote(c.name)} AS {n}" for c, n in zip(self.columns, inner, strict=True)]
        fields = ", ".join(f"'c{n}', {column}" for n, column in enumerate(inner))
        until = f"lead({since}) OVER (PARTITION BY {key} ORDER BY {since})"
        items += [f"{since} AS {low}", f"{f'coalesce({until}, {LAST})' if self.is_timed else until} AS {high}"]
        shown = ", ".join(f"{row}.c{n} AS {quote(name)}" for n, name in enumerate(self.names))
        ends = f"(SELECT {', '.join(items)} FROM {self.text})"
        hidden = f"(SELECT named_struct({fields}) AS {row}, {low}, {high} FROM {ends}) AS {quote(self.hidden)}"
        return f"{hidden} JOIN LATERAL (SELECT {shown}) AS {quote(self.alias)}"

    def __str__(self) -> str:
        return f"{self.text} as {quote(self.alias)}, versions by {', '.join(self.key)} from {self.valid_from.name}"


@plan_node
class VersionedTable(Rendered, Relation):
    """A table with versions in FROM, joined with a hidden relation of their ends."""

    rewritten: ClassVar[bool] = True
    required: ClassVar[bool] = True
    validity: Validity
    alias: str | None
    renames: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        return str(self.validity)

    @property
    def declared_columns(self) -> tuple[tuple[str | None, tuple[Column, ...]], ...]:
        held = self.validity
        shown = tuple(Column(n, c.typed) for n, c in zip(held.names, held.columns, strict=True))
        return ((held.alias, shown), (held.hidden, held.ends))

    @property
    def notes(self) -> tuple[str, ...]:
        since = self.validity.valid_from.name
        return (f"valid to: lead({since}) over {', '.join(self.validity.key)} by {since}",)

    def stars(self, of: Callable[[Node], list[str]]) -> list[str]:
        return [f"{quote(self.validity.alias)}.*"]

    def render(
        self, sides: tuple[str, ...], names: NameGenerator, conjunction: Callable[[tuple[Scalar, ...]], str]
    ) -> str:
        return self.validity.relation
