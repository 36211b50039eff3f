"""Decompresses event logs as streams: Spark's framings of zstd, LZ4, Snappy and LZF, and gzip.

A framing is known by its first bytes, not by the name of the file.  No chunk that comes out is longer than the limits
below, whatever a file claims: the memory does not grow with the log.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from optimizer.advise.event_log.errors import CutOff, Damaged
from optimizer.advise.event_log.lzf import decompress_lzf

CHUNK = 1 << 20
_LARGEST_BLOCK = 64 << 20
_SNAPPY = b"\x82SNAPPY\x00"
_INSTALL = "Install it with: pip install 'dovetail[event-log]'."


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

    def read_exactly(self, size: int) -> bytes:
        """Read ``size`` bytes, or none at the end of the file.  Raises ``CutOff`` for fewer."""
        data = self.read(size)
        if data and len(data) < size:
            raise CutOff
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


def _lz4(file: Counted) -> Iterator[bytes]:
    """``LZ4Block``, token, sizes of the block before and behind, checksum: the stream of lz4-java."""
    codec = _arrow_codec("LZ4", "lz4_raw")
    while header := file.read_exactly(21):
        magic, token, packed, size, _ = struct.unpack("<8sBiii", header)
        if magic != _LZ4 or packed < 0 or token & 0xF0 not in (0x10, 0x20):
            raise Damaged("The LZ4 data is not valid: a block does not begin as it has to.")
        data = _block(file, packed, size)
        if size:  # an empty block ends a stream; another one may follow
            yield data if token & 0xF0 == 0x10 else _expand(codec, data, size)


def _snappy(file: Counted) -> Iterator[bytes]:
    """A header of 16 bytes, then blocks behind their sizes: the stream of snappy-java."""
    codec = _arrow_codec("Snappy", "snappy")
    file.read_exactly(16)
    while header := file.read_exactly(4):
        if header == _SNAPPY[:4]:  # the header of a stream that was appended
            file.read_exactly(12)
            continue
        data = _block(file, struct.unpack(">i", header)[0], 0)
        yield _expand(codec, data, _snappy_size(data))


def _lzf(file: Counted) -> Iterator[bytes]:
    """``ZV``, whether the chunk is compressed, and its sizes: the stream of compress-lzf."""
    while header := file.read_exactly(5):
        magic, kind, packed = struct.unpack(">2sBH", header)
        if magic != b"ZV" or kind > 1:
            raise Damaged("The LZF data is not valid: a chunk does not begin as it has to.")
        size = struct.unpack(">H", file.read_exactly(2) or b"\0\0")[0] if kind else packed
        data = _block(file, packed, size)
        try:
            yield decompress_lzf(data, size) if kind else data
        except (IndexError, ValueError) as error:
            raise Damaged("The LZF data is not valid: a chunk does not expand to the size that it gives.") from error


def _block(file: Counted, packed: int, size: int) -> bytes:
    if not 0 <= packed <= _LARGEST_BLOCK or not 0 <= size <= _LARGEST_BLOCK:
        raise Damaged(f"The compressed data is not valid: it gives a block size of {max(packed, size):,} bytes.")
    data = file.read_exactly(packed) if packed else b""
    if packed and not data:
        raise CutOff
    return data


def _snappy_size(data: bytes) -> int:
    """The size of a Snappy block behind its expansion, which is its first number."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    if size > _LARGEST_BLOCK:
        raise Damaged(f"The compressed data is not valid: it gives a block size of {size:,} bytes.")
    return size


def _expand(codec: Any, data: bytes, size: int) -> bytes:
    import pyarrow

    try:
        return bytes(codec.decompress(data, decompressed_size=size, asbytes=True))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise Damaged(f"The compressed data is not valid: {str(error).rstrip('.')}.") from error


def _arrow_codec(name: str, codec: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise Damaged(f"The log is compressed with {name}, and the library pyarrow is missing. {_INSTALL}") from None
    return pyarrow.Codec(codec)


_LZ4 = b"LZ4Block"
_CODECS = (
    _Codec(b"\x28\xb5\x2f\xfd", _zstd),
    _Codec(_LZ4, _lz4),
    _Codec(_SNAPPY, _snappy),
    _Codec(b"ZV", _lzf),
    _Codec(b"\x1f\x8b", _gzip),
)
