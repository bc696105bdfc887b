"""Damaged bytes."""

from hypothesis import strategies as st


def spoil(data: st.DataObject, good: bytes, begin: int = 0) -> bytes:
    """`good` with one to three wounds behind byte `begin`: a byte changed, bytes more or less."""
    wounded = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(begin, len(wounded)))
        kind = data.draw(st.sampled_from(["change", "insert", "delete", "cut"]))
        if kind == "change":
            wounded[at : at + 1] = data.draw(
                st.sampled_from([b"\0", b"\1", b"\x7f", b"\x80", b"\xff"])
            )
        elif kind == "insert":
            wounded[at:at] = data.draw(st.binary(min_size=1, max_size=6))
        elif kind == "delete":
            del wounded[at : at + data.draw(st.integers(1, 6))]
        else:
            del wounded[at:]
        begin = min(begin, len(wounded))
    return bytes(wounded)
