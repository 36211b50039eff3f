"""Prints expressions as Spark SQL, with the parentheses that Spark's precedence needs.

Spark binds, the tightest first:  x.a  x[0]  x::INT  COLLATE;  - ~;  * / % DIV;  + - ||;  << >> >>>;  &;  ^;  |;
= <> < <=;  BETWEEN IN LIKE IS;  NOT;  AND;  OR.  Where sqlglot's reader binds otherwise (``a % b * c``, comparisons of
comparisons, bits), parentheses are set by both, so that both read the same.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dovetail.planner.errors import Unsupported
from dovetail.planner.expr.calls import call_parts
from dovetail.planner.expr.dialect import COMMAS, INFIX, PREDICATES, RAW, render_tree

_WHOLE, _OR, _AND, _NOT, _PREDICATE, _COMPARISON, _BITS, _SUM, _PRODUCT, _SIGN, _ATOM, _NAME = range(12)

_LEVELS: dict[type[exp.Expr], int] = {
    exp.Alias: _WHOLE,
    exp.Lambda: _WHOLE,
    exp.Kwarg: _WHOLE,
    exp.Or: _OR,
    exp.And: _AND,
    exp.Not: _NOT,
    **dict.fromkeys((exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape), _PREDICATE),
    exp.NullSafeNEQ: _PREDICATE,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _COMPARISON),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _BITS),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BITS),
    **dict.fromkeys((exp.Add, exp.Sub, exp.DPipe), _SUM),
    **dict.fromkeys((exp.Mul, exp.Div, exp.Mod, exp.IntDiv), _PRODUCT),
    **dict.fromkeys((exp.Neg, exp.BitwiseNot), _SIGN),
}
# Of one level and of any number of operands: a tree that leans to the left needs no parentheses.
_LEFT = (exp.Or, exp.And, exp.Add, exp.Sub, exp.DPipe, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_BINARY = tuple(kind for kind in _LEVELS if issubclass(kind, exp.Binary) and kind not in (exp.Escape, exp.Kwarg))


def print_sql(tree: exp.Expr) -> str:
    """Print a tree as Spark SQL.  Raises ``Unsupported`` if sqlglot cannot print it."""
    try:
        return render_tree(_spark_form(_enclosed(tree)))
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


def _enclosed(tree: exp.Expr) -> exp.Expr:
    """Copy an expression with parentheses around every operand that needs them."""
    root: exp.Expr = tree.copy()
    for node in list(root.walk()):
        for slot, least in _slots(node):
            operand = node.args.get(slot)
            if isinstance(operand, exp.Expr) and level(operand) < least:
                node.set(slot, exp.Paren(this=operand))
    return root


def level(tree: exp.Expr) -> int:
    """Return the precedence of an expression."""
    if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.startswith("-"):
        return _SIGN
    if type(tree) in _LEVELS:
        return _LEVELS[type(tree)]
    if isinstance(tree, exp.Binary) and not isinstance(tree, exp.Dot | exp.Collate):
        return _WHOLE
    literal = (isinstance(tree, exp.Literal) and not tree.is_string) or isinstance(tree, exp.Interval)
    return _ATOM if literal or "raw" in tree.meta or "form" in tree.meta else _NAME


def holds_together(tree: exp.Expr) -> bool:
    """Whether an expression can be an operand without parentheses."""
    return level(tree) >= _ATOM


def _slots(node: exp.Expr) -> tuple[tuple[str, int], ...]:
    """The operands of a node, and the level that each must have."""
    own = _LEVELS.get(type(node))
    if isinstance(node, exp.Dot | exp.Bracket):
        return (("this", _NAME),)
    if isinstance(node, exp.Collate) or (isinstance(node, exp.Cast) and "form" in node.meta):
        return (("this", _ATOM),)
    if isinstance(node, exp.Between):
        return ("this", _BITS), ("low", _BITS), ("high", _BITS)
    if isinstance(node, exp.In):
        return (("this", _BITS),)
    if isinstance(node, exp.Escape):
        return (("this", _PREDICATE),)
    if isinstance(node, exp.Not):
        return (("this", _NOT),)
    if own == _SIGN:
        return (("this", _ATOM),)
    if own is None or not isinstance(node, _BINARY):
        return ()
    if own == _PREDICATE:
        return ("this", _BITS), ("expression", _BITS)
    if own == _BITS:
        return ("this", _SUM), ("expression", _SUM)
    return ("this", own if isinstance(node, _LEFT) else own + 1), ("expression", own + 1)
