"""The transaction index's bytes, and the search in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.log.transaction_index import (
    AbortedTransaction,
    CorruptTransactionIndex,
    decode_transaction_index,
    encode_transaction_index,
    find_overlapping,
)

OFFSETS = st.integers(-1, 1 << 62)
ENTRIES = st.lists(
    st.builds(AbortedTransaction, st.integers(0, 1 << 62), OFFSETS, OFFSETS, OFFSETS),
    unique_by=lambda entry: entry.last_offset,
    max_size=6,
).map(lambda entries: sorted(entries, key=lambda entry: entry.last_offset))


def test_an_entry_has_34_bytes() -> None:
    data = encode_transaction_index([AbortedTransaction(1000, 40, 44, 45)])
    assert data.hex() == "0000" + "".join(f"{n:016x}" for n in (1000, 40, 44, 45))


@given(ENTRIES)
def test_what_is_written_is_read(entries: list[AbortedTransaction]) -> None:
    data = encode_transaction_index(entries)
    assert len(data) == 34 * len(entries)
    assert decode_transaction_index(data, -1) == entries


ENTRY = AbortedTransaction(1, 0, 5, 6)
DAMAGED = {
    "half an entry": (encode_transaction_index([ENTRY])[:17], 0, 17),
    "version 1": (b"\0\1" + encode_transaction_index([ENTRY])[2:], 0, 0),
    "the same offset twice": (encode_transaction_index([ENTRY, ENTRY]), 0, 34),
    "before its segment": (encode_transaction_index([ENTRY]), 6, 0),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named(name: str) -> None:
    data, base_offset, at = DAMAGED[name]
    with pytest.raises(CorruptTransactionIndex) as caught:
        decode_transaction_index(data, base_offset)
    assert caught.value.offset == at


def histories() -> st.SearchStrategy[list[AbortedTransaction]]:
    """The indexes that logs have: transactions of a few producers begin, and end aborted or not."""
    steps = st.tuples(st.sampled_from("bca"), st.integers(1, 4))
    return st.lists(steps, max_size=30).map(_indexed)


def _indexed(steps: list[tuple[str, int]]) -> list[AbortedTransaction]:
    begun: dict[int, int] = {}
    entries = []
    for offset, (kind, producer_id) in enumerate(steps):
        if kind == "b":
            begun.setdefault(producer_id, offset)
            continue
        first = begun.pop(producer_id, None)
        if kind == "a" and first is not None:
            stable = min(begun.values(), default=offset + 1)
            entries.append(AbortedTransaction(producer_id, first, offset, stable))
    return entries


@given(histories(), st.integers(0, 30), st.integers(0, 30))
def test_the_search_ends_early_and_misses_nothing(
    entries: list[AbortedTransaction], fetch_offset: int, size: int
) -> None:
    bound = fetch_offset + size
    all_of_them = [e for e in entries if e.last_offset >= fetch_offset and e.first_offset < bound]
    assert find_overlapping(entries, fetch_offset, bound) == all_of_them
