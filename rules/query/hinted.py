"""Finds the relations of a SELECT that a hint can name."""

from collections.abc import Iterator

from dovetail.planner.catalog.settings import NameCase
from dovetail.planner.errors import one_of
from dovetail.planner.expr import Scalar, quote
from dovetail.planner.hints.blocks import Hint, names_of, width_of
from dovetail.planner.logical import (
    Aggregate,
    Derived,
    Filter,
    Join,
    LateralView,
    Nested,
    Opaque,
    Scan,
    Windows,
)
from dovetail.planner.logical.lookup import LookupJoin
from dovetail.planner.tree import Node, unwrap
from dovetail.rules.context import Context

Name = tuple[str, ...]


_TRANSPARENT = (Filter, Aggregate, Windows, Join, LateralView, Nested)


def looks_through(node: Node) -> bool:
    """Whether a hint applies to the relations below a node."""
    own = unwrap(node)
    return isinstance(own, _TRANSPARENT) and not (isinstance(own, Nested) and own.alias)


def hintable_names(node: Node) -> Iterator[Name]:
    """The names of the relations that a hint can name; an empty name for an item of FROM whose name is unknown."""
    match node:
        case Scan():
            yield node.name if node.alias in (None, node.name[-1]) else (node.alias,)
        case Derived() | Opaque():
            yield (node.alias,) if node.alias else () if isinstance(node, Opaque) else ("",)
        case Nested() if node.alias:
            yield (node.alias,)
        case LookupJoin():  # as FLIP-204 has it, also by the name of its table
            yield from hintable_names(node.left)
            yield from dict.fromkeys(((node.scan.alias or node.scan.name[-1],), node.scan.name))
        case _ if looks_through(node):
            for child in node.children:
                yield from hintable_names(child)


def is_named(relation: Name, wanted: Name, ctx: Context | None = None) -> bool:
    """Whether ``wanted`` names the relation, in any case; with a context, as Spark compares names."""
    case = ctx.names if ctx else NameCase(False)
    return case.folded(relation)[-len(wanted) :] == case.folded(wanted)


def no_relation(hint: Hint, name: Name, relations: list[Name]) -> str:
    """Return the warning about a hint that names no relation."""
    shown, possible = ".".join(map(quote, name)), {".".join(map(quote, r)) for r in relations if any(r)}
    return f"{hint.text}: this SELECT has no relation {shown}; {one_of(possible, shown)}"


def relation_name(argument: Scalar) -> Name:
    """The relation that an argument names, also as a string."""
    text = argument.text.strip()
    if text[:1] in ("'", '"') and width_of(argument) is None:
        return names_of(Scalar(text[1:-1]))
    return names_of(argument)
