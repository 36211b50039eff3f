"""Columns that are taken out of a relation, to be computed above the joins that it is in."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.expr import Scalar
from planner.expr.calls import volatile
from planner.logical import Logical
from planner.types.schema import Column
from rules.analysis.speculation import OF_MANY

_GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline)


@dataclass(frozen=True)
class TakenOut:
    """A relation without some of its columns; ``values``: the SQL of each, by its folded name, over ``added`` columns.

    No other relation of the statement has a column of the name of an added one.  ``unused``: those without a value,
    since nothing reads them.  ``early``: whether a later join of the same FROM reads one of them.
    """

    relation: Logical
    values: dict[str, str]
    added: tuple[Column, ...] = ()
    unused: frozenset[str] = frozenset()
    early: bool = False


def is_lazy(item: Scalar) -> bool:
    """Whether Spark computes an item where it is used, and not where it is written.

    It does the latter with volatile functions, users' functions, generators, and subqueries alone.
    """
    if item.known is None:
        return True

    def plain(node: exp.Expr) -> exp.Expr:
        raises = isinstance(node, exp.Anonymous) and str(node.this).upper() == "RAISE_ERROR"
        return exp.null() if raises or isinstance(node, OF_MANY) else node

    tree = item.known.unalias().copy().transform(plain)
    alone = bool(item.plans) and isinstance(tree.unnest(), exp.Column)
    return not (alone or volatile(tree) or tree.find(*_GENERATORS))
