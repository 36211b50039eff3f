"""Adds parentheses, so that a tree prints as the expression that it represents.

Spark binds, the tightest first:  x.a  x[0]  x::INT  COLLATE;  - ~;  * / % DIV;  + - ||;  << >> >>>;  &;  ^;  |;
= <> < <=;  BETWEEN IN LIKE IS;  NOT;  AND;  OR.  Where sqlglot's reader binds otherwise (``a % b * c``, comparisons of
comparisons, bits), parentheses are set by both, so that both read the same.
"""

from __future__ import annotations

from sqlglot import exp

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


def enclosed(tree: exp.Expr) -> exp.Expr:
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
