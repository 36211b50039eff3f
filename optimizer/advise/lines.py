"""The report on a statement in words, for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.optimizer import terminal
from dovetail.optimizer.advise.report import LoopFinding, StatementAdvice
from dovetail.planner.explain.records import Savings


def describe_gain(advice: StatementAdvice) -> str:
    """The estimated gain of a rewriting for a reader: seconds on one core, else pairs; ``unknown`` without estimate."""
    if advice.status != "rewritten":
        return ""
    if gain := describe_savings(advice.savings):
        return gain
    known = [own.pairs for own, _ in advice.replaced if own.pairs is not None]
    return f"at most {max(known):.2g} pairs" if known else "unknown"


def describe_savings(savings: Savings) -> str:
    """The estimated seconds on one core, else the pairs; empty without either."""
    if savings.seconds and savings.seconds > 0:
        return f"about {terminal.format_seconds(savings.seconds)}"
    return f"about {savings.pairs:.2g} pairs" if savings.pairs and savings.pairs > 0 else ""


def details(advice: StatementAdvice) -> Iterator[str]:
    """The report on a statement, a line each: problem, rules, nested loops, reasons."""
    if advice.problem:
        yield advice.problem
    if advice.rules:
        yield f"rewritten by {', '.join(advice.rules)}"
        yield from describe_estimates(advice)
    for loop in advice.loops:
        state = "nested loop removed" if loop.removed else "nested loop"
        yield f"{loop.place.line}:{loop.place.column} {state}: {describe_loop(loop, advice)}"
        if loop.remedy:
            yield f"  {loop.remedy}"
    places = {loop.place for loop in advice.loops if loop.remedy}
    for d in advice.declined:
        yield f"{d.place.line}:{d.place.column} {d.rule} declined: {d.reason}"
        if d.remedy and d.place not in places:
            yield f"  {d.remedy}"
    if advice.verified:
        yield f"verified: {advice.verified}"


def describe_estimates(advice: StatementAdvice) -> Iterator[str]:
    """The estimates of each choice by cost, a line each."""
    for own, chosen in advice.replaced:
        if own.pairs is not None:
            pairs = f"compares up to {own.pairs:.2g} pairs"
            after = f", the rewriting about {chosen.pairs:.2g}" if chosen.pairs is not None else ""
            shuffled = f" and shuffles {chosen.bytes / 2**20:,.0f} MiB" if chosen.bytes is not None else ""
            yield f"estimate: Spark {pairs}{after}{shuffled}"
        else:
            yield "no estimate: the sizes, or the pairs with equal keys, are unknown"


def describe_loop(loop: LoopFinding, advice: StatementAdvice) -> str:
    """The kind, sides, condition and pairs of a nested loop.

    The pairs of a loop that is removed are left out where the estimate of the rewriting has them: it measures more.
    """
    on = f" on {loop.condition}" if loop.condition else ", without a condition"
    pairs = f", up to {float(loop.pairs):.2g} pairs" if loop.pairs is not None else ", an unknown number of pairs"
    if loop.removed and any(own.pairs is not None for own, _ in advice.replaced):
        pairs = ""
    return f"{loop.kind} join of {loop.left} and {loop.right}{on}{pairs}"
