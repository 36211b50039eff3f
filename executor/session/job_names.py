"""Names for jobs: a description in Spark's UI and event logs, and a tag on Spark Connect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from pyspark.sql import SparkSession

from dovetail.executor.session.batch import classic

_DESCRIPTION = "spark.job.description"
_STATEMENT = "Dovetail: "  # begins the name of a statement


def statement_name(session: SparkSession, name: str) -> AbstractContextManager[None]:
    """Name the jobs of a statement inside the block: ``Dovetail: NAME · the user's own description``.

    A block inside that of another statement, such as a method that calls another one, changes nothing.
    """
    own = session.sparkContext.getLocalProperty(_DESCRIPTION) if classic(session) else None
    if own and own.startswith(_STATEMENT):
        return nullcontext()
    return job_name(session, f"{_STATEMENT}{name} · {own}" if own else f"{_STATEMENT}{name}")


@contextmanager
def job_name(session: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs that this thread starts inside the block; afterwards the user's own description is back.

    On Spark Connect, which has no descriptions, the operations get a tag: the description with ``-`` for spaces.
    """
    if classic(session):
        context = session.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_DESCRIPTION, description)
        try:
            yield
        finally:
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None removes it
        return
    tag = re.sub("[:,]", "", description).replace(" ", "-")
    is_new = tag not in session.getTags()
    session.addTag(tag)
    try:
        yield
    finally:
        if is_new:
            session.removeTag(tag)
