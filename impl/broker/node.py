"""A broker without sockets: request bytes in, response bytes out.

Six rules:

1. `receive`, `receive_answer` and `advance` are the only inputs; the time is an argument, and what
   is to be sent is returned. A node changes nothing but itself and its `Cluster`.
2. `Close` is for requests that the connection cannot survive. Everything else is answered with an
   error code.
3. A request with acks=0 is never answered; if it fails, the connection is closed, as in Kafka.
4. Versions are those of `config.release`. An unknown version of ApiVersions is answered in the form
   of version 0. Produce is advertised from version 0, because old clients break otherwise
   (KAFKA-18659), and refused below 3.
5. All replicas share the leader's log: an append is replicated at once, so the high watermark
   reaches the end of the log before the answer leaves, unless too few replicas are in sync.
6. `advance` does all work that no answer waits for: blocks of producer ids, markers, time-outs. A
   transaction is prepared when its EndTxn is answered, and complete after `advance`.

Theory of operation: `receive` decodes a request, finds the API's handler in a table, and encodes
the body that it returns. A handler that has to wait, for another broker or for time to pass,
returns DEFERRED and calls `answer` when it can. Handlers know `HandlerContext`, the coordinators
`NodeServices`; only this module knows all of them. `handle` is for drivers that want the answer at
once: it advances, receives, and advances until the answer is there, without waiting for time.
Sources: `KafkaApis`, `SocketServer.processCompletedReceives`; no authorizer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from impl.broker.apis import HANDLERS
from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.handler import HandlerContext
from impl.broker.outputs import (
    DEFERRED,
    LOCAL,
    BrokerRequest,
    Close,
    CloseConnection,
    DecodedRequest,
    Deferred,
    Output,
    RefusedRequest,
    Response,
)
from impl.broker.producer_ids import BlockSource
from impl.broker.releases import served_versions
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from impl.log.disk import StorageError
from impl.protocol.errors import DecodeError, UnsupportedVersion
from impl.protocol.message_form import Value
from impl.protocol.messages import (
    decode_request,
    decode_response,
    encode_unsupported_version,
)
from impl.protocol.schemas import ApiKey
from impl.security.session import ClientSession

if TYPE_CHECKING:
    from impl.broker.fetch_sessions import FetchSessions
    from impl.coordinator.timers import Timers
    from impl.partition.leader import PartitionLeader
    from impl.partition.replica_log import ReplicaLog

COORDINATOR_RETRY_BACKOFF_MS: Final = 50
"""Between two attempts to write markers, or the completion of a transaction."""

_FETCH: Final = int(ApiKey.FETCH)
_new: Final = tuple.__new__


class Node(HandlerContext):
    """One broker, and the part of the controller that allocates producer ids.

    Public, read-only: `config`, `cluster`, `topics`, `fetch_sessions`, `producer_ids`,
    `controller`, `coordinators`, `verification`.
    """

    __slots__ = ("_fetch_sessions", "_served")

    def __init__(
        self,
        config: NodeConfig | None = None,
        *,
        blocks: BlockSource | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """`blocks` allocates producer ids; a node that replaces this one needs the same.

        Nodes with the same `cluster` form one, which has its own blocks. Raises `TypeError` if both
        are given.
        """
        if blocks is not None and cluster is not None:
            raise TypeError("a cluster has its own blocks: Cluster(..., blocks=blocks)")
        me = config or NodeConfig()
        super().__init__(me, cluster or Cluster(me.cluster_id, me.log, blocks, me.security))
        served = served_versions(me.release)
        self._served = {int(key): (versions[0], versions[-1]) for key, versions in served.items()}
        self.cluster.format_settings(me.release)
        self._fetch_sessions: FetchSessions | None = None

    @property
    def fetch_sessions(self) -> FetchSessions:
        """There from the first Fetch on."""
        if self._fetch_sessions is None:
            from impl.broker.fetch_sessions import FetchSessions

            slots = self.config.max_incremental_fetch_session_cache_slots
            self._fetch_sessions = FetchSessions(slots, self.topics)
        return self._fetch_sessions

    # ---- inputs

    def receive(
        self, reference: Hashable, payload: bytes, now_ms: int, session: ClientSession = LOCAL
    ) -> list[Output]:
        """Receive a request without its size, from a client or a broker.

        The outputs that answer it carry `reference`. `now_ms` is the broker's clock, ms since the
        epoch. A driver passes the next request of a connection after the answer to this one.
        `session` says whose connection it is.
        """
        try:
            self._receive(reference, payload, now_ms, session)
        except CloseConnection as error:
            self._outputs.append(Close(reference, str(error)))
        return self._take_outputs()

    def _receive(
        self, reference: Hashable, payload: bytes, now_ms: int, session: ClientSession
    ) -> None:
        try:
            header, body = decode_request(payload)
        except UnsupportedVersion as error:
            self._refuse_version(reference, error)
            return
        except DecodeError as error:
            raise CloseConnection(str(error)) from error
        api_key: int = header["api_key"]
        version: int = header["api_version"]
        served = self._served.get(api_key)
        if served is None:
            raise CloseConnection(f"api key {api_key} is not served")
        oldest, newest = served
        if not oldest <= version <= newest:
            correlation_id = header["correlation_id"]
            refused = UnsupportedVersion(api_key, version, f"{oldest}-{newest}", correlation_id)
            self._refuse_version(reference, refused)
            return
        request = _new(
            DecodedRequest,
            (
                reference,
                _API_KEYS[api_key],
                version,
                header["correlation_id"],
                body,
                header["client_id"] or "",
                session,
                None,
            ),
        )
        self.follow_settings()
        self._follow_leadership(now_ms)
        try:
            if api_key == _FETCH:
                request = self.fetch_sessions.resolve(request, now_ms)
            if self.cluster.access.authorizer is not None:
                request = _authorize(self, request)
        except RefusedRequest as refusal:
            self.answer(request, refusal.answer)
            return
        body_or_deferred = HANDLERS[request.api_key](self, request, now_ms)
        if body_or_deferred is not DEFERRED:
            assert not isinstance(body_or_deferred, Deferred)
            self.answer(request, body_or_deferred)

    def _refuse_version(self, reference: Hashable, error: UnsupportedVersion) -> None:
        """Only ApiVersions is answered in a version that is not served."""
        if error.api_key != ApiKey.API_VERSIONS:
            raise CloseConnection(str(error)) from error
        oldest, newest = self._served[ApiKey.API_VERSIONS]
        answer = encode_unsupported_version(error.correlation_id, oldest, newest)
        self._outputs.append(Response(reference, answer))

    def receive_answer(
        self, correlation_id: int, payload: bytes | None, now_ms: int
    ) -> list[Output]:
        """Receive the answer to a `BrokerRequest`; None if the connection broke.

        An answer to an unknown request is dropped; one that cannot be decoded counts as None.
        """
        request = self._in_flight.pop(correlation_id, None)
        if request is not None:
            body: Value | None = None
            if payload is not None:
                with suppress(DecodeError):
                    body = decode_response(request.api_key, request.version, payload)[1]
            request.callback(body, now_ms)
        return self._take_outputs()

    def advance(self, now_ms: int) -> list[Output]:
        """Do what is due, and what was deferred."""
        self.follow_settings()
        self._follow_leadership(now_ms)
        self._serve_controller(now_ms)
        self._run_periodic_checks(now_ms)
        self._run_coordinators_checks(now_ms)
        self._run_due_actions(now_ms)
        return self._take_outputs()

    def handle(self, payload: bytes, now_ms: int) -> bytes | None:
        """The response to one request, both without their 4-byte size; None for acks=0.

        For a cluster of one node: requests to other brokers fail, and delays are cut short. Raises
        `CloseConnection`.
        """
        reference = object()
        outputs = self.advance(now_ms) + self.receive(reference, payload, now_ms)
        while True:
            for output in outputs:
                if isinstance(output, Close) and output.reference is reference:
                    raise CloseConnection(output.reason)
                if isinstance(output, Response) and output.reference is reference:
                    return output.payload
            outputs = [
                done
                for output in outputs
                if isinstance(output, BrokerRequest)
                for done in self.receive_answer(output.correlation_id, None, now_ms)
            ]
            if not outputs:
                self._skip_delays(now_ms)
                outputs = self._take_outputs()

    @property
    def next_due_ms(self) -> int | None:
        """When `advance` should be called at the latest; 0 for at once, None if nothing waits."""
        if self.producer_ids.has_request:
            return 0
        due_ms = (super().next_due_ms, *(timers.next_due_ms for timers in self._group_timers()))
        return min((due for due in due_ms if due is not None), default=None)

    def has_work_before(self, time_ms: int) -> bool:
        """Whether `advance` has to be called before this time.

        Something waits for what a request did, or has a deadline until then.
        """
        if (
            self._deferred
            or self._delayed_answers
            or self.producer_ids.has_request
            or (self._coordinators is not None and self._coordinators.is_behind)
            or (self._timers and self._timers[0][0] < time_ms)
        ):
            return True
        for timers in self._group_timers():
            due_ms = timers.next_due_ms
            if due_ms is not None and due_ms < time_ms:
                return True
        return False

    def _skip_delays(self, now_ms: int) -> None:
        """Members that wait for others do not wait any more, either."""
        if self._coordinators is not None:
            self._coordinators.memberships.skip_delays(now_ms)
        if not self._outputs:
            super()._skip_delays(now_ms)

    # ---- its coordinators

    def _follow_leadership(self, now_ms: int) -> None:
        """There is something to coordinate from the first internal topic on."""
        if (
            self._coordinators is not None
            or TRANSACTION_STATE_TOPIC in self.topics
            or OFFSETS_TOPIC in self.topics
        ):
            self.coordinators.follow_leadership(now_ms)

    def _run_coordinators_checks(self, now_ms: int) -> None:
        """Their intervals begin with the node, whenever there is something to coordinate."""
        me, interval_ms = self.config.transactions, self.config.offsets.retention_check_interval_ms
        expires = self.is_due("remove expired offsets", interval_ms, now_ms)
        retries = self.is_due("retry", COORDINATOR_RETRY_BACKOFF_MS, now_ms)
        aborts = self.is_due("abort timed out", me.abort_timed_out_interval_ms, now_ms)
        removes = self.is_due("remove expired", me.remove_expired_interval_ms, now_ms)
        if self._coordinators is not None:
            self._coordinators.run_periodic_checks(
                now_ms, expires=expires, retries=retries, aborts=aborts, removes=removes
            )

    def _group_timers(self) -> tuple[Timers[Any], ...]:
        return () if self._coordinators is None else self._coordinators.group_timers

    # ---- the node's own work

    def _serve_controller(self, now_ms: int) -> None:
        if self.producer_ids.take_request():
            me = self.config
            answer = self.controller.allocate(me.node_id, me.broker_epoch)
            self.producer_ids.receive(answer, now_ms)

    def _run_periodic_checks(self, now_ms: int) -> None:
        """Remove expired producers, clean logs and remove their old segments, write checkpoints.

        `LogManager.startup`, `LogCleaner.CleanerThread`.
        """
        me = self.config
        expire = self.is_due("expire", me.producer_id_expiration_check_interval_ms, now_ms)
        delete = self.is_due("delete", me.log_retention_check_interval_ms, now_ms)
        compact = self.is_due("clean", me.log_cleaner_backoff_ms, now_ms)
        for leader in self._led_partitions() if expire or delete or compact else ():
            log = leader.log
            if expire:
                leader.remove_expired_producers(now_ms)
            if compact if log.config.is_compacted else delete:
                _clean(log, now_ms)
        if self.is_due("checkpoint", me.log_flush_offset_checkpoint_interval_ms, now_ms):
            self.cluster.checkpoint()

    def _led_partitions(self) -> Iterator[PartitionLeader]:
        for topic in self.topics:
            for leader, placement in zip(topic.partitions, topic.placements, strict=True):
                if placement.leader_id == self.config.node_id:
                    yield leader


_API_KEYS: Final[Mapping[int, ApiKey]] = {int(key): key for key in ApiKey}


def _authorize(node: Node, request: DecodedRequest) -> DecodedRequest:
    """Raises `RefusedRequest`, `CloseConnection`."""
    from impl.broker.authorization import authorize  # only brokers with an authorizer wait for it

    return authorize(node, request)


def _clean(log: ReplicaLog, now_ms: int) -> None:
    from impl.partition.cleaner import clean  # the first check is seconds away

    with suppress(StorageError):  # tried again at the next check
        clean(log, now_ms)
        log.delete_old_segments(now_ms)
