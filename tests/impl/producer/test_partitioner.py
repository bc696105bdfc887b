"""Keys go where Java's client sends them; the others fill batches."""

import pytest

from impl.producer.partitioner import Partitioner, murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key, signed):
    """The values of `UtilsTest.testMurmur2`."""
    assert murmur2(key) == signed % 2**32


def test_a_key_has_one_partition():
    partitioner = Partitioner(100)
    assert {partitioner.partition("t", b"abc", 10, 7) for _ in range(5)} == {479470107 % 7}


def test_without_a_key_a_partition_gets_a_batch():
    partitioner = Partitioner(100)
    assert [partitioner.partition("t", None, 50, 3) for _ in range(7)] == [0, 0, 1, 1, 2, 2, 0]
    assert partitioner.partition("u", None, 50, 3) == 0
