"""Prints expressions as Spark SQL, with parentheses by Spark's precedence (``planner/expr/precedence.py``)."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.calls import call_parts
from dovetail.planner.expr.dialect import COMMAS, INFIX, PREDICATES, RAW, render_tree
from dovetail.planner.expr.precedence import enclosed


def print_sql(tree: exp.Expr) -> str:
    """Print a tree as Spark SQL.  Raises ``Unsupported`` if sqlglot cannot print it."""
    try:
        return render_tree(_spark_form(enclosed(tree)))
    except SqlglotError as error:
        raise Unsupported(str(error).splitlines()[0]) from error


def plain_form(tree: exp.Expr) -> exp.Expr:
    """Normalize the syntax of a tree: synonyms of functions, forms of casts, quotes.

    The case of names that are no columns (of parameters, map keys, variables) is left alone.
    """
    root: exp.Expr = tree.copy()
    for node in list(root.walk(bfs=False))[::-1]:
        if isinstance(node, exp.Paren):
            if node is root:
                root = node.this
                root.parent = None
            else:
                node.replace(node.this)
            continue
        call_parts = str(node.meta.get(RAW, ""))
        kept = isinstance(node, exp.RawString | exp.HexString) or any(c in call_parts[1:-1] for c in "\\'\"\n")
        for key in ("called", "form", INFIX, *(() if kept else (RAW,))):
            node.meta.pop(key, None)
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and isinstance(node.this, str):
            node.set("this", node.this.upper())
    return root


def _spark_form(tree: exp.Expr) -> exp.Expr:
    """Rewrite a tree in place so that sqlglot's printer keeps its meaning."""
    for node in list(tree.walk(bfs=False))[::-1]:
        new = _printed(node)
        if new is None:
            continue
        if node is tree:
            tree = new
        else:
            node.replace(new)
    return tree


def _printed(node: exp.Expr) -> exp.Expr | None:
    """What is printed in the place of a node whose operands are as they are printed; None for itself."""
    if RAW in node.meta:
        return exp.Var(this=node.meta[RAW])
    match node:
        case exp.Interval() if isinstance(node.this, exp.Literal) and node.args.get("unit") is None:
            return exp.Var(this=f"INTERVAL {render_tree(node.this)}")
        case exp.CurrentDate() | exp.CurrentTimestamp() if not node.meta:
            return exp.Var(this="current_date" if isinstance(node, exp.CurrentDate) else "current_timestamp")
        case exp.Not() if node.meta.get(INFIX) and isinstance(node.this, PREDICATES):
            operand, whole = render_tree(node.this.this), render_tree(node.this)
            rest = whole[len(operand) :].strip()
            return exp.Var(
                this=f"{operand} " + (f"IS NOT {rest[3:]}" if isinstance(node.this, exp.Is) else f"NOT {rest}")
            )
        case exp.NullSafeEQ():
            return exp.Var(this=f"{render_tree(node.this)} <=> {render_tree(node.expression)}")
        case exp.BitwiseLeftShift() | exp.BitwiseRightShift():
            sign = "<<" if isinstance(node, exp.BitwiseLeftShift) else ">>"
            return exp.Var(this=f"{render_tree(node.this)} {sign} {render_tree(node.expression)}")
    if commas := node.meta.get(COMMAS):
        first, *others = map(render_tree, node.expressions)
        rest = "".join(f" {word} {argument}" for word, argument in zip(commas, others, strict=False))
        return exp.Var(this=f"{node.name}({first}{rest})") if len(others) == len(commas) else None
    if found := call_parts(node):
        return exp.Anonymous(this=found[0], expressions=found[1])
    if isinstance(node, exp.Cast):
        form, type_ = node.meta.get("form"), render_tree(node.to)
        if form == "::":
            return exp.Var(this=f"{render_tree(node.this)}::{type_}")
        return exp.Var(this=f"{type_} {render_tree(node.this)}") if form == "typed" else None
    return None
