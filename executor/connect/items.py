"""Reads the select lists of operators of Spark Connect that return a row for each: select, drop, joins by names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from dovetail.executor.connect.expressions import ProtoExpressionReader, SelectItem
from dovetail.executor.connect.names import Attribute, Attributes
from dovetail.executor.connect.plan import RelationNode, check_fields
from dovetail.executor.frame_sql.query_blocks import Trees
from dovetail.planner.catalog.name_case import NameCase
from dovetail.planner.errors import Refused
from dovetail.planner.logical import JoinKind


def project_items(node: RelationNode, reader: ProtoExpressionReader) -> list[SelectItem]:
    """Read the select list of select, withColumns, withColumnsRenamed, drop or toDF.  Raises ``Refused``."""
    operator, columns = node.operator, reader.columns
    same = [SelectItem(reader.trees[a.id], a.name, a) for a in columns.all]
    match node.name:
        case "project":
            check_fields(operator, "select", "input", "expressions")
            return [item for message in operator.expressions for item in reader.items(message)]
        case "with_columns":
            check_fields(operator, "withColumns", "input", "aliases")
            return _with_columns(same, operator.aliases, reader)
        case "with_columns_renamed":
            check_fields(operator, "withColumnsRenamed", "input", "renames")
            return _renamed(same, operator.renames, columns.case)
        case "drop":
            check_fields(operator, "drop", "input", "columns", "column_names")
            named = [a for name in operator.column_names for a in columns.named(name)]
            others = [item.attribute for message in operator.columns for item in reader.items(message)]
            dropped = {a.id for a in (*named, *others) if a}
            return [item for item in same if item.attribute and item.attribute.id not in dropped]
    check_fields(operator, "toDF", "input", "column_names")
    if len(operator.column_names) != len(same):
        raise Refused("toDF() has another number of columns")
    return [SelectItem(item.tree, name) for item, name in zip(same, operator.column_names, strict=True)]


def _renamed(items: list[SelectItem], renames: Sequence[Any], case: NameCase) -> list[SelectItem]:
    for rename in renames:
        old, new = rename.col_name, rename.new_col_name
        items = [SelectItem(i.tree, new) if case.is_same(i.name, old) else i for i in items]
    return items


def _with_columns(
    same: Sequence[SelectItem], aliases: Sequence[Any], reader: ProtoExpressionReader
) -> list[SelectItem]:
    """Read columns in the place of those of the same name, and others behind them."""
    items, case = list(same), reader.columns.case
    for alias in aliases:
        check_fields(alias, "withColumns", "expr", "name")
        (name,) = alias.name
        new = SelectItem(reader.tree(alias.expr), str(name))
        places = [n for n, item in enumerate(same) if case.is_same(item.name, name)]
        for place in places:
            items[place] = new
        items += [] if places else [new]
    return items


def only_column(columns: Attributes, name: str) -> Attribute:
    """Return the column of a side that a join by names uses.  Raises ``Refused`` if there are none or several."""
    found = columns.named(name)
    if len(found) != 1:
        raise Refused(f"the join by the column {name} has {len(found)} columns of this name on one side")
    return found[0]


def using_item(kind: JoinKind, trees: Trees, left: Attribute, right: Attribute) -> SelectItem:
    """Read what a join by names returns of two columns."""
    if kind == "full":
        operands = [trees[a.id].copy() for a in (left, right)]
        return SelectItem(exp.Anonymous(this="coalesce", expressions=operands), left.name)
    one = right if kind == "right" else left
    return SelectItem(trees[one.id], one.name, one)
