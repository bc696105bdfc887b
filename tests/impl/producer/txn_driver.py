"""The transactional core opposite answers that a test writes, each through the codec both ways."""

from __future__ import annotations

from typing import Any

from impl.producer import ProducerConfig
from impl.producer.core import SendRequest
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import NEWEST, RequestVersions
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_response
from impl.protocol.schemas import ApiKey
from tests.impl.producer.driver import batches_of, through_the_wire, values_of

NODE = 1
COORDINATOR = 2
MOST_POLLS = 50
Body = dict[str, Any]


def _find_coordinator(request: SendRequest, error: ErrorCode) -> Body:
    row = {"node_id": COORDINATOR, "host": "h", "port": 1, "error_code": error}
    if request.api_version < 4:
        return row
    return {"coordinators": [row | {"key": request.body["coordinator_keys"][0]}]}


def _init_producer_id(request: SendRequest, error: ErrorCode) -> Body:
    epoch = request.body["producer_epoch"] + 1
    return {"error_code": error, "producer_id": 7, "producer_epoch": -1 if error else epoch}


def _add_partitions(request: SendRequest, error: ErrorCode) -> Body:
    rows = [
        {
            "name": topic["name"],
            "results_by_partition": [
                {"partition_index": partition, "partition_error_code": error}
                for partition in topic["partitions"]
            ],
        }
        for topic in request.body["v3_and_below_topics"]
    ]
    return {"results_by_topic_v3_and_below": rows}


def _txn_offset_commit(request: SendRequest, error: ErrorCode) -> Body:
    rows = [
        {
            "name": topic["name"],
            "partitions": [
                {"partition_index": row["partition_index"], "error_code": error}
                for row in topic["partitions"]
            ],
        }
        for topic in request.body["topics"]
    ]
    return {"topics": rows}


def _end_txn(request: SendRequest, error: ErrorCode) -> Body:
    epoch = request.body["producer_epoch"] + 1
    return {"error_code": error, "producer_id": -1 if error else 7, "producer_epoch": epoch}


def _produce(request: SendRequest, error: ErrorCode) -> Body:
    topics: dict[str, list[Body]] = {}
    for topic, partition in batches_of(request):
        data = {"index": partition, "error_code": error, "base_offset": -1 if error else 10}
        topics.setdefault(topic, []).append(data)
    return {"topics": [{"name": name, "partitions": rows} for name, rows in topics.items()]}


ANSWER = {
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda request, error: {"error_code": error},
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.END_TXN: _end_txn,
    ApiKey.PRODUCE: _produce,
}
"""What a broker says to each request when all is well but for `error`."""


class TxnDriver:
    """One transactional client; `t-0` and `t-1` are led by node 1, node 2 coordinates.

    `level` is that of transaction.version; `versions` override the newest ones.
    """

    def __init__(self, *, level: int = 2, start: bool = True, versions=None, **config) -> None:
        self.now_ms = 1_000
        settings = {"linger_ms": 0, "transactional_id": "T"} | config
        newest = RequestVersions(dict(NEWEST) | (versions or {}))
        self.core = TransactionalProducerCore(ProducerConfig.of(**settings), versions=newest)
        self.core.update_metadata({("t", 0): NODE, ("t", 1): NODE})
        self.core.update_nodes([NODE, COORDINATOR])
        self.core.update_level(level)
        if start:
            self.start()

    def start(self) -> None:
        result = self.core.initialize()
        self.talk(ApiKey.FIND_COORDINATOR)
        self.talk(ApiKey.INIT_PRODUCER_ID)
        result.acknowledge()

    # ---- the network, in the test's hand

    def poll(self, after_ms: int = 0) -> tuple[Any, ...]:
        self.now_ms += after_ms
        return self.core.poll(self.now_ms)

    def request(self, api_key: ApiKey) -> SendRequest:
        """The next and only request, after whatever the core waits for; of this API."""
        request = self.request_of_any_api()
        assert ApiKey(request.api_key) is api_key
        return request

    def request_of_any_api(self) -> SendRequest:
        """The next and only request, after whatever the core waits for."""
        for _ in range(MOST_POLLS):
            effects = self.poll()
            if effects:
                (request,) = effects
                through_the_wire(request)
                return request
            wait_ms = self.core.next_timeout_ms(self.now_ms)
            assert wait_ms is not None, "no request ever comes"
            self.now_ms += wait_ms
        raise AssertionError("no request comes")

    def answer(self, request: SendRequest, error: ErrorCode = ErrorCode.NONE, **fields) -> None:
        body = ANSWER[request.api_key](request, error) | fields
        payload = encode_response(
            request.api_key, request.api_version, request.correlation_id, body
        )
        _, decoded = decode_response(request.api_key, request.api_version, payload)
        self.core.receive(request.correlation_id, decoded, self.now_ms)

    def talk(self, api_key: ApiKey, error: ErrorCode = ErrorCode.NONE, **fields) -> SendRequest:
        """The next request is of this API, and is answered like this."""
        request = self.request(api_key)
        self.answer(request, error, **fields)
        return request

    def lose(self, node_id: int = COORDINATOR) -> None:
        self.core.disconnected(node_id, self.now_ms)

    # ---- the application

    def append(self, value: bytes = b"r", partition: int = 0):
        return self.core.append("t", partition, value=value, now_ms=self.now_ms)

    def in_transaction(self, *apis: ApiKey):
        """Begin, append a record, and talk: its handle."""
        self.core.begin()
        handle = self.append()
        for api_key in apis:
            self.talk(api_key)
        return handle


def sent_values(request: SendRequest) -> dict[tuple[str, int], list[bytes | None]]:
    return {place: values_of(batch) for place, batch in batches_of(request).items()}
