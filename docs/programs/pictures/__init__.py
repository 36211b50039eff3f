"""The pictures of the documentation: a function that draws each, by the name of its file in ``docs/pictures``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from docs.programs.pictures.bins import bins
from docs.programs.pictures.calls import calls
from docs.programs.pictures.estimates import estimates
from docs.programs.pictures.plans import plans
from docs.programs.pictures.speed import nearest, refresh, streams, time_and_rows, tpc
from docs.programs.pictures.state import state
from docs.programs.svg import Drawing

PICTURES: Mapping[str, Callable[[], Drawing]] = MappingProxyType(
    {
        "bins": bins,
        "plans": plans,
        "time-and-rows": time_and_rows,
        "calls": calls,
        "estimates": estimates,
        "state": state,
        "refresh": refresh,
        "tpc": tpc,
        "nearest": nearest,
        "streams": streams,
    }
)
