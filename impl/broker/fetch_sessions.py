"""Fetch sessions: a client names what changed in what it fetches, and learns what changed there.

Five rules:

1. A Fetch of epoch 0 names all its partitions and opens a session, unless the cache is full. One of
   epoch -1 closes its session and opens none.
2. Any other epoch must be the session's own, which grows by one with each request. Its partitions
   are the session's, without those that it forgets and with those that it names.
3. The answer leaves out a partition without records, error, or change of its high watermark and log
   start offset. One that had records goes behind the others: next time they come first.
4. A session by topic ids keeps the name of each partition's topic. Once that topic is deleted the
   name is unknown, and once there is another one of its name the id is inconsistent.
5. Beside a full cache a session makes room by replacing one that nobody used for two minutes, or,
   for a replica, that of a consumer.

Theory of operation: `resolve` comes before authorization, so that rights are checked again for each
partition of a session. It gives the request with all partitions, and a `complete` that the answer
goes through last. Each shard of Kafka's cache has a range of session ids; ids are drawn here from
all of them.
Sources: `FetchManager`, `FetchSession`, `FullFetchContext`, `IncrementalFetchContext`; KIP-227.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from random import Random
from typing import Final

from impl.broker.outputs import DecodedRequest, RefusedRequest
from impl.broker.refusals import refuse_request
from impl.broker.topics import Topics
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CONSUMER_REPLICA
from impl.protocol.message_form import Value
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import INVALID_OFFSET

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
TOPIC_IDS_FROM: Final = 13
"""The first Fetch version that names topics by id."""
EVICTION_MS: Final = 120_000
"""`min.incremental.fetch.session.eviction.ms`, which Kafka has as a constant."""
MAX_SESSION_ID: Final = 2**31 - 1
SHARDS: Final = 8
SHARD_SESSION_IDS: Final = MAX_SESSION_ID // SHARDS
MAX_EPOCH: Final = 2**31 - 1

_Key = tuple[str, bytes, int]


def next_epoch(epoch: int) -> int:
    """The epoch of a session's next request. `FetchMetadata.nextEpoch`."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class _Partition:
    """A partition of a session: what was asked last, and what its client knows.

    `topic` is the name of its topic, "" while no topic has its id.
    """

    __slots__ = ("asked", "high_watermark", "log_start_offset", "topic")

    def __init__(self, asked: Value, topic: str) -> None:
        self.asked = asked
        self.topic = topic
        self.high_watermark = INVALID_OFFSET
        self.log_start_offset = INVALID_OFFSET

    def learn(self, row: Value) -> bool:
        """Note what an answer says; whether it says anything new.

        `CachedPartition.maybeUpdateResponseData`.
        """
        high_watermark = row.get("high_watermark", INVALID_OFFSET)
        log_start_offset = row.get("log_start_offset", INVALID_OFFSET)
        is_new = (
            bool(row.get("records") or row["error_code"])
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
        )
        self.log_start_offset = log_start_offset
        self.high_watermark = INVALID_OFFSET if row["error_code"] else high_watermark
        return is_new


class _Session:
    """The partitions of one session, in the order in which they are read."""

    __slots__ = (
        "created_ms",
        "epoch",
        "is_replica",
        "partitions",
        "session_id",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, request: DecodedRequest, now_ms: int) -> None:
        self.session_id = session_id
        self.is_replica = is_replica(request)
        self.uses_topic_ids = _uses_topic_ids(request)
        self.partitions: dict[_Key, _Partition] = {}
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.used_ms = now_ms

    def size(self) -> tuple[bool, int]:
        """Which of two sessions stays when only one can."""
        return self.is_replica, len(self.partitions)

    def add(self, body: Value, topics: Topics) -> None:
        """Read what a request names from now on, or read it otherwise."""
        for key, asked in _asked_partitions(body):
            if key in self.partitions:
                self.partitions[key].asked = asked
            else:
                self.partitions[key] = _Partition(asked, _name_of(key, topics))

    def forget(self, body: Value) -> None:
        """Read no more what a request forgets."""
        for topic in body["forgotten_topics_data"]:
            for index in topic["partitions"]:
                self.partitions.pop((topic["topic"], topic["topic_id"], index), None)

    def list_topics(self, topics: Topics) -> list[Value]:
        """All partitions in the form of a request, with names beside ids."""
        for key, partition in self.partitions.items():
            partition.topic = partition.topic or _name_of(key, topics)
        return _topics(
            ((partition.topic, topic_id, index), partition.asked)
            for (_, topic_id, index), partition in self.partitions.items()
        )

    def select(self, asked_epoch: int, answer: Value) -> Value:
        """What is new of an answer about all partitions."""
        if answer["error_code"]:
            return answer
        if self.epoch != next_epoch(asked_epoch):
            return _refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH, self.session_id)
        topics = []
        for topic in answer["responses"]:
            rows = [row for row in topic["partitions"] if self.learn(topic, row)]
            if rows:
                topics.append(topic | {"partitions": rows})
        return answer | {"session_id": self.session_id, "responses": topics}

    def learn(self, topic: Value, row: Value) -> bool:
        """Note what an answer says of a partition; whether it says anything new."""
        name = topic["topic"] if topic["topic_id"] == ZERO_UUID else ""
        key = (name, topic["topic_id"], row["partition_index"])
        partition = self.partitions[key]
        if row.get("records"):
            self.partitions[key] = self.partitions.pop(key)
        return partition.learn(row)


class FetchSessions:
    """The sessions of a node. At most `slots` are open at a time."""

    __slots__ = ("_random", "_sessions", "_slots", "_topics")

    def __init__(self, slots: int, topics: Topics) -> None:
        self._slots = slots
        self._topics = topics
        self._sessions: dict[int, _Session] = {}
        self._random = Random()

    def resolve(self, request: DecodedRequest, now_ms: int) -> DecodedRequest:
        """A Fetch with all partitions of its session. Raises `RefusedRequest`.

        `FetchManager.newContext`.
        """
        session_id, epoch = request.body["session_id"], request.body["session_epoch"]
        if session_id and not _has_shard(session_id):
            raise RefusedRequest(_refuse_whole(request))
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._go_on(request, now_ms)
        self._sessions.pop(session_id, None)
        once = _without_repeated(request)
        if epoch == FINAL_EPOCH:
            return once
        return once._replace(complete=partial(self._open, once, now_ms))

    def _go_on(self, request: DecodedRequest, now_ms: int) -> DecodedRequest:
        body = request.body
        session_id, epoch = body["session_id"], body["session_epoch"]
        session = self._sessions.get(session_id)
        if session is None:
            raise RefusedRequest(_refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        if session.epoch != epoch:
            raise RefusedRequest(_refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH))
        if session.uses_topic_ids != _uses_topic_ids(request):
            raise RefusedRequest(_refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR))
        session.add(body, self._topics)
        session.forget(body)
        if not session.partitions:
            del self._sessions[session_id]
            return request
        session.used_ms = now_ms
        session.epoch = next_epoch(epoch)
        return request._replace(
            body=body | {"topics": session.list_topics(self._topics)},
            complete=partial(session.select, epoch),
        )

    def _open(self, request: DecodedRequest, now_ms: int, answer: Value) -> Value:
        """The answer with a session of its own, where there is room. `FullFetchContext`."""
        if answer["error_code"] or not self._make_room(request, now_ms):
            return answer
        session = _Session(self._new_id(), request, now_ms)
        session.add(request.body, self._topics)
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                session.learn(topic, row)
        self._sessions[session.session_id] = session
        return answer | {"session_id": session.session_id}

    def _new_id(self) -> int:
        while (drawn := self._random.randrange(1, SHARDS * SHARD_SESSION_IDS)) in self._sessions:
            pass
        return drawn

    def _make_room(self, request: DecodedRequest, now_ms: int) -> bool:
        """Whether there is a slot, if need be that of another session.

        `FetchSessionCacheShard.tryEvict`: one that is not used; else one with no more partitions
        than the new one will have, of a consumer if a replica asks, or of any that is old.
        """
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        evicted = min(self._sessions.values(), key=lambda session: session.used_ms)
        if now_ms - evicted.used_ms <= EVICTION_MS:
            mine = (is_replica(request), sum(1 for _ in _asked_partitions(request.body)))
            others = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > EVICTION_MS or (mine[0] and not session.is_replica)
            ]
            if not others:
                return False
            evicted = min(others, key=_Session.size)
            if mine < evicted.size():
                return False
        del self._sessions[evicted.session_id]
        return True


def _refusal(error: ErrorCode, session_id: int = NO_SESSION) -> Value:
    return {"error_code": error, "session_id": session_id, "responses": []}


def _refuse_whole(request: DecodedRequest) -> Value:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return refuse_request(request.api_key, request.version, request.body, error)


def _has_shard(session_id: int) -> bool:
    """Kafka's cache has no shard for some ids, and fails when it looks for one."""
    return -SHARD_SESSION_IDS < session_id < SHARDS * SHARD_SESSION_IDS


def _uses_topic_ids(request: DecodedRequest) -> bool:
    return request.version >= TOPIC_IDS_FROM


def is_replica(request: DecodedRequest) -> bool:
    """Whether the sender of a Fetch says that it is a broker."""
    body = request.body
    replica_ids = body["replica_id"], body["replica_state"]["replica_id"]
    return any(replica_id > CONSUMER_REPLICA for replica_id in replica_ids)


def _without_repeated(request: DecodedRequest) -> DecodedRequest:
    """Of a partition that a request asks for twice, the last counts. `FetchRequest.fetchData`."""
    topics = request.body["topics"]
    count = sum(len(topic["partitions"]) for topic in topics)
    if count <= 1:
        return request
    asked = dict(_asked_partitions(request.body))
    if len(asked) == count:
        return request
    return request._replace(body=request.body | {"topics": _topics(asked.items())})


def _name_of(key: _Key, topics: Topics) -> str:
    name, topic_id, _ = key
    found = topics.find(name or topic_id)
    return name if isinstance(found, ErrorCode) else found.name


def _topics(partitions: Iterable[tuple[_Key, Value]]) -> list[Value]:
    """Partitions in the form of a request."""
    return [
        {"topic": name, "topic_id": topic_id, "partitions": [asked for _, asked in rows]}
        for (name, topic_id), rows in groupby(partitions, lambda entry: entry[0][:2])
    ]


def _asked_partitions(body: Value) -> Iterator[tuple[_Key, Value]]:
    for topic in body["topics"]:
        for row in topic["partitions"]:
            yield (topic["topic"], topic["topic_id"], row["partition"]), row
