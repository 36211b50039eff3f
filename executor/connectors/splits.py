"""Persists the caches of key splits between tasks, so that any worker of an executor can continue one.

Spark gives a task to any idle Python worker, so a cache in a worker's memory would see another split each time.  The
workers of an executor share the local folder of Spark's shuffle files, which Spark removes in the end.  A task reads
the cache of its split from there, unless its process wrote it last, and writes it back when it has changed.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import OrderedDict
from pathlib import Path

from dovetail.executor.connectors.cache import RowCache
from dovetail.planner.logical.lookup_spec import LookupSpec

_MOST = 16
_read: OrderedDict[Path, tuple[int, RowCache]] = OrderedDict()  # with the modification time of its file


def shared_folder() -> Path | None:
    """Return the folder that the workers of this executor share; None outside of Spark."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(first, "dovetail-lookups") if first and Path(first).is_dir() else None


def load_split_cache(where: Path, fingerprint: str, split: int, spec: LookupSpec) -> RowCache:
    """Load the cache of one key split of a lookup; an empty cache if there is no readable file."""
    path = _path(where, fingerprint, split)
    written = _modified_at(path)
    known = _read.get(path)
    if known is not None and known[0] == written:
        return known[1]
    cache = RowCache(spec.cache_size, spec.cache_ttl)
    try:
        cache.restore(pickle.loads(path.read_bytes()))
    except (OSError, pickle.UnpicklingError, EOFError):
        return cache
    _remember(path, written, cache)
    return cache


def save_split_cache(where: Path, fingerprint: str, split: int, cache: RowCache) -> None:
    """Write a cache back if it has changed; a full disk costs round trips, never an answer."""
    if not cache.changed:
        return
    path = _path(where, fingerprint, split)
    try:
        where.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=where, delete=False) as file:
            pickle.dump(cache.snapshot(), file, protocol=5)
        Path(file.name).replace(path)
    except OSError:
        return
    cache.changed = False
    _remember(path, _modified_at(path), cache)


def _path(where: Path, fingerprint: str, split: int) -> Path:
    return where / f"{fingerprint}-{split}"


def _modified_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _remember(path: Path, written: int, cache: RowCache) -> None:
    _read[path] = (written, cache)
    _read.move_to_end(path)
    while len(_read) > _MOST:
        _read.popitem(last=False)
