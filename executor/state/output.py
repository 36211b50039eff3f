"""The interface of a sink of epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql import DataFrame


class Output(ABC):
    """A sink of epochs."""

    @abstractmethod
    def write(self, answer: DataFrame, epoch: int, *, again: bool) -> None:
        """Take the rows of an epoch.  ``again``: an epoch of this number may have been written before."""
