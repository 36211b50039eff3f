"""Decompresses event logs as streams: zstd, which is Spark's default, and gzip.

A compression is known by its first bytes, not by the name of the file.  No chunk that comes out is longer than
``CHUNK``, whatever a file claims: the memory does not grow with the log.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from dovetail.optimizer.advise.event_log.errors import Damaged

CHUNK = 1 << 20
_INSTALL = "Install it with: pip install zstandard."


class Counted:
    """A file that reports each number of bytes that is read."""

    def __init__(self, file: IO[bytes], report: Callable[[int], object]):
        self._file, self._report = file, report
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes."""
        data = self._file.read(size)
        self.count += len(data)
        self._report(len(data))
        return data


class _Codec(NamedTuple):
    magic: bytes
    decompress: Callable[[Counted], Iterator[bytes]]


def read_chunks(path: Path, report: Callable[[int], object]) -> Iterator[bytes]:
    """Yield the bytes of a log, decompressed.

    Raises ``Damaged`` where the data is not valid, or expands to far more than any event log does.
    """
    with path.open("rb") as file:
        start = file.read(8)
        file.seek(0)
        counted = Counted(file, report)
        codec = next((c for c in _CODECS if start.startswith(c.magic)), None)
        total = 0
        for chunk in codec.decompress(counted) if codec else _plain(counted):
            total += len(chunk)
            if codec and total > _EXPANDED and total > _MOST_EXPANSION * counted.count:
                raise Damaged(
                    f"{counted.count:,} compressed bytes expand to more than {total >> 20:,} MiB, which no event log "
                    "does; the rest was not read."
                )
            yield chunk


_EXPANDED = 128 << 20
_MOST_EXPANSION = 1_000
"""Event logs shrink to a 5th to a 30th."""


def _plain(file: Counted) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _zstd(file: Counted) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise Damaged(f"The log is compressed with zstd, and the library zstandard is missing. {_INSTALL}") from None
    try:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)  # type: ignore[arg-type]
        while chunk := reader.read(CHUNK):
            yield chunk
    except zstandard.ZstdError as error:
        raise Damaged(f"The zstd data is not valid: {error}.") from error


def _gzip(file: Counted) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=file) as reader:  # type: ignore[call-overload]
            while chunk := reader.read(CHUNK):
                yield chunk
    except EOFError:
        return  # the last line is cut off, which the reader of lines reports
    except (OSError, zlib.error) as error:
        raise Damaged(f"The gzip data is not valid: {error}.") from error


def _refuse(name: str) -> Callable[[Counted], Iterator[bytes]]:
    def refuse(file: Counted) -> Iterator[bytes]:
        raise Damaged(
            f"The log is compressed with {name}, which is not read. Write logs with "
            "spark.eventLog.compression.codec=zstd, Spark's default, or spark.eventLog.compress=false."
        )

    return refuse


_CODECS = (
    _Codec(b"\x28\xb5\x2f\xfd", _zstd),
    _Codec(b"\x1f\x8b", _gzip),
    _Codec(b"LZ4Block", _refuse("LZ4")),
    _Codec(b"\x82SNAPPY\x00", _refuse("Snappy")),
    _Codec(b"ZV", _refuse("LZF")),
)
