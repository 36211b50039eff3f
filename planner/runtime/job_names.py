"""Names for the jobs that planning runs: a description in Spark's UI, and a tag on Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from planner.runtime.batch import classic

_DESCRIPTION = "spark.job.description"


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
    tag = description.replace(" ", "-").replace(",", "")
    is_new = tag not in session.getTags()
    session.addTag(tag)
    try:
        yield
    finally:
        if is_new:
            session.removeTag(tag)
