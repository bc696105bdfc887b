"""CRC-32C (Castagnoli), the checksum of record batches and snapshots.

`crc32c(data)`, and `extend_crc32c(crc, data)` for data after data of that checksum, are Google's
C implementation where installed, else the table below, with one warning: it is about 500 times
slower.
"""

from __future__ import annotations

import warnings
from functools import cache

_POLYNOMIAL = 0x82F63B78


@cache
def _table() -> tuple[int, ...]:
    """The remainder of each byte, reflected polynomial."""
    rows = []
    for row in range(256):
        for _ in range(8):
            row = row >> 1 ^ (_POLYNOMIAL if row & 1 else 0)
        rows.append(row)
    return tuple(rows)


def crc32c_in_python(data: bytes) -> int:
    """CRC-32C of `data` as an unsigned 32-bit integer, without compiled code."""
    return extend_crc32c_in_python(0, data)


def extend_crc32c_in_python(crc: int, data: bytes) -> int:
    """CRC-32C of `data` after other data, whose checksum is `crc`, without compiled code."""
    table = _table()
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


try:
    from google_crc32c import extend as extend_crc32c
    from google_crc32c import value as crc32c
except ImportError:
    warnings.warn(
        "google-crc32c is not installed: checksums are computed in Python, about 500 times slower",
        RuntimeWarning,
        stacklevel=2,
    )
    crc32c = crc32c_in_python
    extend_crc32c = extend_crc32c_in_python

__all__ = ["crc32c", "crc32c_in_python", "extend_crc32c", "extend_crc32c_in_python"]
