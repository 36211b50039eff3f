"""Decompresses a chunk of LZF, in Python: no library of it is kept up."""

from __future__ import annotations


def decompress_lzf(data: bytes, size: int) -> bytes:
    """Decompress a chunk that expands to ``size`` bytes.

    A control byte below 32 is followed by that many literal bytes and one more; any other one gives a length in its
    three upper bits and a distance to go back in the others and the next byte.  Raises ``IndexError`` or ``ValueError``
    for data that is not valid.

    >>> decompress_lzf(bytes([2, 97, 98, 99, 64, 2]), 7)
    b'abcabca'
    """
    out = bytearray()
    at, end = 0, len(data)
    while at < end:
        control = data[at]
        at += 1
        if control < 32:
            out += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[at]
            at += 1
        start = len(out) - ((control & 31) << 8) - data[at] - 1
        at += 1
        if start < 0:
            raise ValueError("a reference to bytes before the chunk")
        length += 2
        piece = out[start : start + length]
        while len(piece) < length:  # the copy overlaps what it writes
            piece += piece[: length - len(piece)]
        out += piece
    if len(out) != size:
        raise ValueError("another size than the chunk gives")
    return bytes(out)
