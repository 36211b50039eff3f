"""Plans of statements that come again: what was decided holds while the analysed query and its files are the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from optimizer.plan import Plan
    from planner.runtime.remembered import Question, Remembered

_MOST = 1_000  # texts


class KnownPlans:
    """The plans that an optimizer has made, of queries that it rewrote; none of those that ask lookups.

    A text is remembered when it comes for the first time, its plan from the second time on: a query that runs once
    pays nothing.
    """

    def __init__(self, session: SparkSession):
        from planner.runtime.remembered import Remembered

        self.session = session
        self._texts: dict[str, None] = {}
        self._plans: Remembered[tuple[Plan, Any]] = Remembered()

    def question(self, text: str, arguments: Any, words: Hashable) -> Question | None:
        """What a text asks, where it has been rewritten before and reads files alone; ``words``: what else decides."""
        from planner.runtime.batch import analysed, classic
        from planner.runtime.remembered import asked

        if text not in self._texts or not classic(self.session):
            return None
        found = analysed(self.session, _bare(text), arguments)
        return None if isinstance(found, str) else asked(found[0], (text, words))

    def find(self, question: Question, arguments: Any) -> Plan | None:
        """The plan of the same question, ready to run; None where there is none.

        The rewriting may name what stood behind a view, so it has to mean what it meant, too.
        """
        from planner.runtime.batch import analysed
        from planner.runtime.remembered import meaning

        known = self._plans.find(question)
        if known is None:
            return None
        plan, meant = known
        assert plan.rewriting is not None
        found = analysed(self.session, plan.rewriting, arguments)
        if isinstance(found, str) or not meant.sameResult(meaning(found[0])):
            return None
        return replace(plan, frame=found[0])

    def keep(self, text: str, question: Question | None, plan: Plan) -> None:
        """Remember a plan, or that its text has been rewritten."""
        from planner.runtime.remembered import meaning

        if not plan.rewritten or plan.prefix:
            return
        if question is not None and plan.frame is not None:
            self._plans.keep(question, (replace(plan, frame=None), meaning(plan.frame)))
        self._texts[text] = None
        if len(self._texts) > _MOST:
            del self._texts[next(iter(self._texts))]


def _bare(text: str) -> str:
    return text.rstrip().rstrip(";")
