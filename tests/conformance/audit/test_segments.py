"""Which folders and files of a log directory are audited."""

import pytest

from conformance.audit.segments import find_partitions
from proofs.run import BadUse


def write(directory, folder, *names, size=1):
    for name in names:
        path = directory / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))


def test_segments_are_found_in_their_order_and_nothing_else(tmp_path):
    first, second = f"{0:020}.log", f"{17:020}.log"
    write(tmp_path, "a.b-c-3", second, first, f"{0:020}.index", f"{5:020}.log.deleted", "x.log")
    write(tmp_path, "gone-0.c1e8c9d1-delete", first)
    write(tmp_path, "moving-0.c1e8c9d1-future", first)
    write(tmp_path, "empty-0", f"{0:020}.index")
    (tmp_path / "a.b-c-3" / f"{30:020}.log").mkdir(parents=True)
    [log] = find_partitions([str(tmp_path)])
    assert (log.topic, log.partition, log.segments) == ("a.b-c", 3, (first, second))
    assert find_partitions([str(tmp_path / "a.b-c-3")]) == [log]


def test_of_replicas_the_longest_counts(tmp_path):
    for broker, size in ((1, 10), (2, 30), (3, 20)):
        write(tmp_path, f"{broker}/t-0", f"{0:020}.log", size=size)
    [log] = find_partitions([str(tmp_path / str(broker)) for broker in (1, 2, 3)])
    assert (log.bytes, log.replicas) == (30, 3)


def test_topics_that_are_not_there(tmp_path):
    write(tmp_path, "t-0", f"{0:020}.log")
    with pytest.raises(BadUse, match="matches --topics 'u' as a whole; there are: t"):
        find_partitions([str(tmp_path)], "u")
