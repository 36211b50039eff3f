"""Caches of shares of the keys, which outlive a task and are met again by whichever worker gets the share next.

Spark hands a task to any idle Python worker, so a cache in the memory of one would see another share each time.  The
workers of an executor have a folder in common, where Spark keeps shuffled rows, too, and which it removes in the end:
a task reads the cache of its share there, unless it has just written it itself, and writes it back with what is new.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import OrderedDict
from pathlib import Path

from planner.connectors.cache import RowCache
from planner.connectors.spec import LookupSpec

_KEPT = 16
_read: OrderedDict[Path, tuple[int, RowCache]] = OrderedDict()  # when the file was written that a cache is equal to


def folder() -> Path | None:
    """Where the workers of this executor share files; None outside of Spark."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(first, "dovetail-lookups") if first and Path(first).is_dir() else None


def cache_of_share(where: Path, fingerprint: str, share: int, spec: LookupSpec) -> RowCache:
    """The cache of one share of the keys of a lookup; an empty one where there is none that can be read."""
    path = _path(where, fingerprint, share)
    written = _written(path)
    known = _read.get(path)
    if known is not None and known[0] == written:
        return known[1]
    cache = RowCache(spec.cache_size, spec.cache_ttl)
    try:
        cache.restore(pickle.loads(path.read_bytes()))
    except (OSError, pickle.UnpicklingError, EOFError):
        return cache
    _keep(path, written, cache)
    return cache


def save_share(where: Path, fingerprint: str, share: int, cache: RowCache) -> None:
    """Write a cache back if it has learned something; a disk that is full costs round trips and no answer."""
    if not cache.changed:
        return
    path = _path(where, fingerprint, share)
    try:
        where.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=where, delete=False) as file:
            pickle.dump(cache.saved(), file, protocol=5)
        Path(file.name).replace(path)
    except OSError:
        return
    cache.changed = False
    _keep(path, _written(path), cache)


def _path(where: Path, fingerprint: str, share: int) -> Path:
    return where / f"{fingerprint}-{share}"


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _keep(path: Path, written: int, cache: RowCache) -> None:
    _read[path] = (written, cache)
    _read.move_to_end(path)
    while len(_read) > _KEPT:
        _read.popitem(last=False)
