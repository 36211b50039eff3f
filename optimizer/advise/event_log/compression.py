"""The lines of event logs, decompressed as they are read: zstd, which is Spark's default, and gzip.

A compression is known by its first bytes, not by the name of the file.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import IO

from dovetail.optimizer.advise.event_log.errors import Damaged

_BUFFER = 1 << 20
_UNREAD = {b"LZ4Block": "LZ4", b"\x82SNAPPY\x00": "Snappy", b"ZV": "LZF"}


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of an unbuffered file.  Raises ``Damaged`` where the data is not valid."""
    buffered = io.BufferedReader(file, _BUFFER)  # type: ignore[type-var]
    start = buffered.peek(8)
    if name := next((name for magic, name in _UNREAD.items() if start.startswith(magic)), None):
        raise Damaged(
            f"The log is compressed with {name}, which is not read. Write logs with "
            "spark.eventLog.compression.codec=zstd, Spark's default, or spark.eventLog.compress=false."
        )
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(buffered)
    return _gzip(buffered) if start.startswith(b"\x1f\x8b") else buffered


def _zstd(file: IO[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise Damaged(
            "The log is compressed with zstd, and the library zstandard is missing. "
            "Install it with: pip install zstandard."
        ) from None
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    try:
        yield from io.BufferedReader(reader, _BUFFER)
    except zstandard.ZstdError as error:
        raise Damaged(f"The zstd data is not valid: {error}.") from error


def _gzip(file: IO[bytes]) -> Iterator[bytes]:
    try:
        yield from gzip.GzipFile(fileobj=file)
    except EOFError:
        return  # the last line is cut off
    except (OSError, zlib.error) as error:
        raise Damaged(f"The gzip data is not valid: {error}.") from error
