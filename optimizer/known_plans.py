"""Plans of statements that come again: what was decided holds while the analysed query and its files are the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optimizer.checks import schema_difference
from planner.reader import not_a_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from optimizer.plan import Plan
    from planner.runtime.remembered import Question, Remembered

_MOST = 1_000  # texts
_WORTH = 0.02  # seconds of planning; a query left as it is that takes less is planned anew


@dataclass(frozen=True)
class Again:
    """A text that comes again: what it asks, and what it was rewritten to; both as DataFrames.

    ``rewriting`` is empty and ``frame`` None where it was left as it is, or its plan is not known yet.
    """

    question: Question
    own: DataFrame
    rewriting: str
    frame: DataFrame | None


class KnownPlans:
    """The plans that an optimizer has made of queries that it rewrote or thought about, but for those with lookups.

    A text is remembered when it comes for the first time, its plan from the second time on: a query that runs once
    pays nothing.
    """

    def __init__(self, session: SparkSession):
        from planner.runtime.remembered import Remembered

        self.session = session
        # What each was rewritten to, if its plan is known; None for one that reads more than files.
        self._texts: dict[str, str | None] = {}
        self._plans: Remembered[tuple[Plan, Any]] = Remembered()

    def question(self, text: str, arguments: Any, words: Hashable) -> Again | None:
        """What a text asks, where it has been planned before and reads files alone; ``words``: what else decides."""
        from planner.runtime.batch import analysed, classic
        from planner.runtime.remembered import asked
        from planner.runtime.together import together

        rewriting = self._texts.get(text)
        if rewriting is None or not classic(self.session):
            return None

        def asks() -> tuple[Question | None, DataFrame] | None:
            found = analysed(self.session, text, arguments)
            return None if isinstance(found, str) else (asked(found[0], (text, words)), found[0])

        def frame() -> DataFrame | None:
            found = analysed(self.session, rewriting, arguments)
            return None if isinstance(found, str) else found[0]

        found: tuple[Any, ...] = together(self.session, asks, *([frame] if rewriting else []))
        told, again = (*found, None)[:2]
        if told is None:
            return None
        question, own = told
        if question is None:
            self._texts[text] = None
            return None
        return Again(question, own, rewriting, again)

    def find(self, again: Again) -> Plan | None:
        """The plan of the same question, ready to run; None where there is none.

        The rewriting may name what stood behind a view, so it has to mean what it meant, too.
        """
        from planner.runtime.remembered import meaning

        known = self._plans.find(again.question)
        if known is None:
            return None
        plan, meant = known
        if not plan.rewritten:
            return replace(plan, frame=again.own)
        if again.frame is None or plan.rewriting != again.rewriting or not meant.sameResult(meaning(again.frame)):
            return None
        if schema_difference(again.own.schema, again.frame.schema):  # two plans can be the same but for names
            return None
        return replace(plan, frame=again.frame)

    def keep(self, text: str, again: Again | None, plan: Plan, seconds: float) -> None:
        """Remember a plan, or that its text has been planned, which took so long."""
        from planner.runtime.remembered import meaning

        if plan.prefix or plan.logical is None or not_a_query(text):
            return
        if not plan.rewritten and again is None and seconds < _WORTH:
            return
        self._texts.setdefault(text, "")
        if again is not None and not plan.rewritten:
            self._texts[text] = ""
            self._plans.keep(again.question, (replace(plan, frame=None), None))
        elif again is not None and plan.frame is not None:
            self._plans.keep(again.question, (replace(plan, frame=None), meaning(plan.frame)))
            self._texts[text] = plan.rewriting or ""
        if len(self._texts) > _MOST:
            del self._texts[next(iter(self._texts))]
