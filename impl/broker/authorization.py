"""Which operation each request needs on which resource, as one table, and how it is refused.

1. A request that is refused as a whole is answered with one error, in the form of its response.
2. Items are refused one by one: the handler gets the others, and the answer has all.
3. What its sender may not describe is left out of an answer that lists everything.
4. An id of no topic is the handler's to refuse.

Theory of operation: `RULES` has for each API the rules that it obeys, in Kafka's order. A rule
raises `RefusedRequest`, takes items out of the request, or edits the answer. Without an authorizer
nothing here runs. What may be done with a topic that Metadata would create is decided here, too.
Sources: `KafkaApis`, `ControllerApis`, `AclApis`, `AuthHelper`; answers of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from impl.broker.group_requests import MANY_GROUPS_FROM
from impl.broker.handler import HandlerContext
from impl.broker.metadata_requests import DELETE_BY_ID_FROM
from impl.broker.outputs import CloseConnection, DecodedRequest, RefusedRequest
from impl.broker.produce_requests import is_transactional_request
from impl.broker.refusals import (
    RefusedAnswer,
    as_struct,
    find_field,
    refuse_request,
    response_fields,
)
from impl.broker.resource_configs import ConfigResourceType
from impl.broker.security_requests import refused_token
from impl.broker.transaction_requests import BATCHED_KEYS_FROM, BROKERS_FROM
from impl.log.checkpoint_files import METADATA
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CoordinatorType
from impl.protocol.message_form import Value
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey
from impl.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from impl.security.session import ANONYMOUS

_E: Final = ErrorCode
_O: Final = AclOperation
_R: Final = ResourceType

_ERRORS: Final = {
    _R.TOPIC: _E.TOPIC_AUTHORIZATION_FAILED,
    _R.GROUP: _E.GROUP_AUTHORIZATION_FAILED,
    _R.CLUSTER: _E.CLUSTER_AUTHORIZATION_FAILED,
    _R.TRANSACTIONAL_ID: _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_TEXTS: Final = {
    _R.TOPIC: "Topic authorization failed.",
    _R.GROUP: "Group authorization failed.",
    _R.CLUSTER: "Cluster authorization failed.",
}
_CONFIGURED: Final[Mapping[int, ResourceType]] = {
    ConfigResourceType.TOPIC: _R.TOPIC,
    ConfigResourceType.BROKER: _R.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: _R.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: _R.CLUSTER,
    ConfigResourceType.GROUP: _R.GROUP,
}
"""What protects settings."""


class _Asking:
    """A request while it is authorized.

    `body` is without what was refused; `refused` has these rows as they are answered, by the arrays
    of request and answer; `edits` change the rest of the answer.
    """

    __slots__ = ("body", "edits", "node", "refused", "request")

    def __init__(self, node: HandlerContext, request: DecodedRequest) -> None:
        self.node = node
        self.request = request
        self.body: Value = dict(request.body)
        self.refused: dict[tuple[str, str], list[Value]] = {}
        self.edits: list[Callable[[Value], None]] = []

    def may(self, operation: AclOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return self.node.is_allowed(self.request, operation, kind, name)

    def refuse(self, kind: ResourceType, text: str | None = None) -> None:
        """Refuse the whole request. Raises `RefusedRequest`."""
        asked = self.request
        raise RefusedRequest(
            refuse_request(asked.api_key, asked.version, self.body, _ERRORS[kind], text)
        )

    def refused_row(self, kind: ResourceType, text: str | None = None) -> RefusedAnswer:
        """What makes rows of the answer that refuse rows of the request."""
        return RefusedAnswer(self.request.api_key, self.request.version, _ERRORS[kind], text)

    def refuse_rows(
        self,
        array: str,
        kind: ResourceType,
        is_refused: Callable[[Any], bool],
        *,
        answered: str = "",
        text: str | None = None,
    ) -> None:
        """Take rows out of the request; they are refused in the answer's array of this name."""
        rows = self.body[array] or []
        refused = [row for row in rows if is_refused(row)]
        if not refused:
            return
        self.body[array] = [row for row in rows if not is_refused(row)]
        found = find_field(response_fields(self.request.api_key), answered or array)
        refusal = self.refused_row(kind, text)
        self.refused.setdefault((array, found.name), []).extend(
            refusal.struct(found.fields, as_struct(row), is_row=True) for row in refused
        )

    def hide(self, array: str, is_hidden: Callable[[Value], bool]) -> None:
        """Leave rows out of an array of the answer."""

        def edit(answer: Value) -> None:
            answer[array] = [row for row in answer[array] if not is_hidden(row)]

        self.edits.append(edit)

    def topic_name(self, row: Value) -> str | None:
        """The topic that a row is about; None for an id of none that no fetch session knows."""
        topic_id = row.get("topic_id", ZERO_UUID)
        name: str | None = row.get("name", row.get("topic"))
        if topic_id == ZERO_UUID:
            return name
        topic = self.node.topics.find(topic_id)
        return (name or None) if isinstance(topic, ErrorCode) else topic.name

    def complete(self, answer: Value) -> Value:
        """The answer with what was refused.

        Where nothing is left of an array, no rows of the handler: none may have meant all.
        """
        completed = dict(answer)
        if not answer.get("error_code"):
            for (array, answered), rows in self.refused.items():
                completed[answered] = [*(answer[answered] if self.body[array] else ()), *rows]
        for edit in self.edits:
            edit(completed)
        return completed


_Rule = Callable[[_Asking], None]
"""Authorizes a request. Raises `RefusedRequest`."""


def authorize(node: HandlerContext, request: DecodedRequest) -> DecodedRequest:
    """The request without what its sender may not do, which is in its answer again.

    Raises `RefusedRequest`; `CloseConnection` for one without an answer (acks=0).
    """
    asking = _Asking(node, request)
    try:
        for rule in RULES[request.api_key]:
            rule(asking)
    except RefusedRequest:
        if request.body.get("acks") == 0:
            raise CloseConnection("an acks=0 request was not authorized") from None
        raise
    return request._replace(body=asking.body, complete=_composed(asking, request.complete))


def _composed(
    asking: _Asking, last: Callable[[Value], Value] | None
) -> Callable[[Value], Value] | None:
    """What completes the answer: what was refused, then what was to be done before."""
    if not (asking.edits or asking.refused):
        return last
    if last is None:
        return asking.complete
    return lambda answer: last(asking.complete(answer))


# ---- rules


def _needs(
    operation: AclOperation, kind: ResourceType, name: str = "", *, text: str | None = None
) -> _Rule:
    """The sender may do this with the resource that a field names, or with the cluster."""

    def rule(asking: _Asking) -> None:
        resource = asking.body[name] if name else CLUSTER_NAME
        if not asking.may(operation, kind, resource):
            asking.refuse(kind, text)

    return rule


def _needs_of_cluster(operation: AclOperation) -> _Rule:
    """As `_needs`, with a text that names the operation."""

    def rule(asking: _Asking) -> None:
        if not asking.may(operation, _R.CLUSTER):
            name = asking.request.api_key.name
            asking.refuse(_R.CLUSTER, f"Request {name} needs {operation.name} permission.")

    return rule


def _each_topic(
    operation: AclOperation, array: str = "topics", *, answered: str = "", text: str | None = None
) -> _Rule:
    """The sender may do this with each topic of an array."""

    def rule(asking: _Asking) -> None:
        def is_refused(row: Any) -> bool:
            name = asking.topic_name(row) if isinstance(row, dict) else row
            return name is not None and not asking.may(operation, _R.TOPIC, name)

        asking.refuse_rows(array, _R.TOPIC, is_refused, answered=answered, text=text)

    return rule


def _each_name(
    operation: AclOperation, kind: ResourceType, array: str, *, answered: str = ""
) -> _Rule:
    """The sender may do this with each resource of an array of names."""

    def rule(asking: _Asking) -> None:
        asking.refuse_rows(
            array, kind, lambda name: not asking.may(operation, kind, name), answered=answered
        )

    return rule


def _lists(operation: AclOperation, kind: ResourceType, array: str, field: str) -> _Rule:
    """Rows of the answer are about resources with which the sender may do this."""

    def rule(asking: _Asking) -> None:
        asking.hide(array, lambda row: not asking.may(operation, kind, row[field]))

    return rule


def _produce(asking: _Asking) -> None:
    name = asking.body["transactional_id"]
    if is_transactional_request(asking.body) and name is not None:
        _needs(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional_id")(asking)


def _init_producer_id(asking: _Asking) -> None:
    """Without a transactional id: IDEMPOTENT_WRITE, or WRITE to any topic (KIP-679)."""
    if asking.body["transactional_id"] is not None:
        _needs(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional_id")(asking)
    elif not asking.may(_O.IDEMPOTENT_WRITE, _R.CLUSTER):
        access, session = asking.node.cluster.access, asking.request.session
        if not access.is_allowed_for_some(session, _O.WRITE, _R.TOPIC):
            asking.refuse(_R.CLUSTER)


def _metadata(asking: _Asking) -> None:
    body = asking.body
    if body["topics"] is None or (asking.request.version == 0 and not body["topics"]):
        _lists(_O.DESCRIBE, _R.TOPIC, "topics", "name")(asking)
        return
    _each_topic(_O.DESCRIBE)(asking)
    creates = asking.node.config.auto_create_topics and body["allow_auto_topic_creation"]
    if creates and not asking.may(_O.CREATE, _R.CLUSTER):

        def is_refused(row: Value) -> bool:
            name = asking.topic_name(row)
            is_missing = name is not None and asking.node.topics.get(name) is None
            return is_missing and not asking.may(_O.CREATE, _R.TOPIC, name or "")

        asking.refuse_rows("topics", _R.TOPIC, is_refused)


def _describe_topic_partitions(asking: _Asking) -> None:
    if asking.body["topics"]:
        _each_topic(_O.DESCRIBE)(asking)
    else:
        _lists(_O.DESCRIBE, _R.TOPIC, "topics", "name")(asking)


def _ends_of_epochs(asking: _Asking) -> None:
    if not asking.may(_O.CLUSTER_ACTION, _R.CLUSTER):
        _each_topic(_O.DESCRIBE)(asking)


def _find_coordinator(asking: _Asking) -> None:
    kind = {
        CoordinatorType.GROUP: _R.GROUP,
        CoordinatorType.TRANSACTION: _R.TRANSACTIONAL_ID,
    }.get(asking.body["key_type"])
    if kind is None:
        return
    if asking.request.version >= BATCHED_KEYS_FROM:
        asking.refuse_rows(
            "coordinator_keys",
            kind,
            lambda key: not asking.may(_O.DESCRIBE, kind, key),
            answered="coordinators",
            text="",
        )
    elif not asking.may(_O.DESCRIBE, kind, asking.body["key"]):
        asking.refuse(kind, _TEXTS.get(kind, "Transactional Id authorization failed."))


def _offset_fetch(asking: _Asking) -> None:
    """One group; from version 8 on each of several, with its topics."""
    if asking.request.version < MANY_GROUPS_FROM:
        _needs(_O.DESCRIBE, _R.GROUP, "group_id")(asking)
        if asking.body["topics"] is None:
            _lists(_O.DESCRIBE, _R.TOPIC, "topics", "name")(asking)
        else:
            _each_topic(_O.DESCRIBE)(asking)
        return
    groups = asking.body["groups"]
    asking.refuse_rows(
        "groups", _R.GROUP, lambda row: not asking.may(_O.DESCRIBE, _R.GROUP, row["group_id"])
    )
    for group in groups:
        _fetched_group(asking, group)


def _fetched_group(asking: _Asking, group: Value) -> None:
    """The topics of one group in an OffsetFetch."""
    topics = find_field(
        find_field(response_fields(asking.request.api_key), "groups").fields, "topics"
    )
    refusal = asking.refused_row(_R.TOPIC)

    def is_refused(row: Value) -> bool:
        name = asking.topic_name(row)
        return name is not None and not asking.may(_O.DESCRIBE, _R.TOPIC, name)

    refused = [row for row in group["topics"] or () if is_refused(row)]
    added = [refusal.struct(topics.fields, row, is_row=True) for row in refused]

    def edit(answer: Value) -> None:
        for row in answer["groups"]:
            if row["group_id"] == group["group_id"] and not row["error_code"]:
                row["topics"] = [topic for topic in row["topics"] if not is_refused(topic)] + added

    asking.edits.append(edit)


def _consumer_group_heartbeat(asking: _Asking) -> None:
    """With the group, then with all topics that are named."""
    _needs(_O.READ, _R.GROUP, "group_id")(asking)
    if not all(
        asking.may(_O.DESCRIBE, _R.TOPIC, name)
        for name in asking.body["subscribed_topic_names"] or ()
    ):
        asking.refuse(_R.TOPIC)


def _consumer_group_describe(asking: _Asking) -> None:
    """With each group; the members of one with a topic that may not be described are hidden."""
    _each_name(_O.DESCRIBE, _R.GROUP, "group_ids", answered="groups")(asking)

    def topics_of(member: Value) -> Iterable[str]:
        yield from member["subscribed_topic_names"]
        for assignment in (member["assignment"], member["target_assignment"]):
            yield from (row["topic_name"] for row in assignment["topic_partitions"])

    def edit(answer: Value) -> None:
        for row in answer["groups"]:
            names = {name for member in row.get("members", ()) for name in topics_of(member)}
            if not all(asking.may(_O.DESCRIBE, _R.TOPIC, name) for name in names):
                row |= _HIDDEN_MEMBERS

    asking.edits.append(edit)


def _add_partitions_to_txn(asking: _Asking) -> None:
    """Clients: the id, then all topics or none. Brokers, from version 4 on: CLUSTER_ACTION."""
    if asking.request.version >= BROKERS_FROM:
        _needs(_O.CLUSTER_ACTION, _R.CLUSTER)(asking)
        return
    _needs(_O.WRITE, _R.TRANSACTIONAL_ID, "v3_and_below_transactional_id")(asking)
    refused = {
        row["name"]
        for row in asking.body["v3_and_below_topics"]
        if not asking.may(_O.WRITE, _R.TOPIC, row["name"])
    }
    if not refused:
        return
    rows = [
        {
            "name": row["name"],
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": _added(row["name"] in refused)}
                for index in row["partitions"]
            ],
        }
        for row in asking.body["v3_and_below_topics"]
    ]
    raise RefusedRequest({"results_by_topic_v3_and_below": rows})


def _added(is_refused: bool) -> ErrorCode:
    return _E.TOPIC_AUTHORIZATION_FAILED if is_refused else _E.OPERATION_NOT_ATTEMPTED


def _list_groups(asking: _Asking) -> None:
    if not asking.may(_O.DESCRIBE, _R.CLUSTER):
        _lists(_O.DESCRIBE, _R.GROUP, "groups", "group_id")(asking)


def _create_topics(asking: _Asking) -> None:
    """With the cluster, or with each topic; its settings are for those who may describe them."""
    if not asking.may(_O.CREATE, _R.CLUSTER):
        names = [row["name"] for row in asking.body["topics"]]

        def is_refused(row: Value) -> bool:
            is_candidate = names.count(row["name"]) == 1 and row["name"] != METADATA.topic
            return is_candidate and not asking.may(_O.CREATE, _R.TOPIC, row["name"])

        asking.refuse_rows("topics", _R.TOPIC, is_refused, text="Authorization failed.")

    def edit(answer: Value) -> None:
        answer["topics"] = [
            row
            if row["error_code"] or asking.may(_O.DESCRIBE_CONFIGS, _R.TOPIC, row["name"])
            else row | _HIDDEN_SETTINGS
            for row in answer["topics"]
        ]

    asking.edits.append(edit)


_HIDDEN_MEMBERS: Final[Value] = {
    "error_code": _E.TOPIC_AUTHORIZATION_FAILED,
    "error_message": "The group has described topic(s) that the client is not authorized to"
    " describe.",
    "members": [],
}
_HIDDEN_SETTINGS: Final[Value] = {
    "topic_config_error_code": _E.TOPIC_AUTHORIZATION_FAILED,
    "num_partitions": -1,
    "replication_factor": -1,
    "configs": [],
}


def _delete_topics(asking: _Asking) -> None:
    array = "topics" if asking.request.version >= DELETE_BY_ID_FROM else "topic_names"
    _each_topic(_O.DELETE, array, answered="responses", text=_TEXTS[_R.TOPIC])(asking)


def _settings(
    operation: AclOperation, answered: str, protected: Mapping[int, ResourceType]
) -> _Rule:
    """The sender may do this with the settings of each resource of these types."""

    def rule(asking: _Asking) -> None:
        for kind in dict.fromkeys(protected.values()):

            def is_refused(row: Value, kind: ResourceType = kind) -> bool:
                if protected.get(row["resource_type"]) is not kind:
                    return False
                name = CLUSTER_NAME if kind is _R.CLUSTER else row["resource_name"]
                return not asking.may(operation, kind, name)

            asking.refuse_rows("resources", kind, is_refused, answered=answered, text=_TEXTS[kind])

    return rule


def _describe_transactions(asking: _Asking) -> None:
    _each_name(
        _O.DESCRIBE, _R.TRANSACTIONAL_ID, "transactional_ids", answered="transaction_states"
    )(asking)

    def edit(answer: Value) -> None:
        for row in answer["transaction_states"]:
            row["topics"] = [
                topic
                for topic in row["topics"]
                if asking.may(_O.DESCRIBE, _R.TOPIC, topic["topic"])
            ]

    asking.edits.append(edit)


def _write_txn_markers(asking: _Asking) -> None:
    """ALTER is for administrators who abort a hanging transaction (KIP-664)."""
    if not asking.may(_O.ALTER, _R.CLUSTER):
        _needs(_O.CLUSTER_ACTION, _R.CLUSTER)(asking)


def _create_delegation_token(asking: _Asking) -> None:
    """For another owner, CREATE_TOKENS with that user (KIP-373).

    Who is not authenticated is told so first.
    """
    owner = asking.body["owner_principal_type"], asking.body["owner_principal_name"]
    requester = asking.request.session.principal
    if requester == ANONYMOUS or not all(owner):
        return
    name = ":".join(owner)
    if name != requester and not asking.may(_O.CREATE_TOKENS, _R.USER, name):
        error = _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        raise RefusedRequest(refused_token(asking.request, error))


_READ_GROUP: Final = (_needs(_O.READ, _R.GROUP, "group_id"),)
_WRITE_ID: Final = (_needs(_O.WRITE, _R.TRANSACTIONAL_ID, "transactional_id"),)
_OF_NODES: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
_ALTERED: Final = {kind: by for kind, by in _CONFIGURED.items() if kind not in _OF_NODES}
_ALTER_SETTINGS: Final = (_settings(_O.ALTER_CONFIGS, "responses", _ALTERED),)
"""Those of a node cannot be altered, which is said first."""
_ALTER_CLUSTER: Final = (_needs_of_cluster(_O.ALTER),)

RULES: Final[Mapping[ApiKey, Sequence[_Rule]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (_produce, _each_topic(_O.WRITE)),
        ApiKey.FETCH: (_each_topic(_O.READ, answered="responses"),),
        ApiKey.LIST_OFFSETS: (_each_topic(_O.DESCRIBE),),
        ApiKey.METADATA: (_metadata,),
        ApiKey.OFFSET_COMMIT: (*_READ_GROUP, _each_topic(_O.READ)),
        ApiKey.OFFSET_FETCH: (_offset_fetch,),
        ApiKey.FIND_COORDINATOR: (_find_coordinator,),
        ApiKey.JOIN_GROUP: _READ_GROUP,
        ApiKey.HEARTBEAT: _READ_GROUP,
        ApiKey.LEAVE_GROUP: _READ_GROUP,
        ApiKey.SYNC_GROUP: _READ_GROUP,
        ApiKey.DESCRIBE_GROUPS: (_each_name(_O.DESCRIBE, _R.GROUP, "groups"),),
        ApiKey.LIST_GROUPS: (_list_groups,),
        ApiKey.SASL_HANDSHAKE: (),
        ApiKey.API_VERSIONS: (),
        ApiKey.CREATE_TOPICS: (_create_topics,),
        ApiKey.DELETE_TOPICS: (_delete_topics,),
        ApiKey.DELETE_RECORDS: (_each_topic(_O.DELETE),),
        ApiKey.INIT_PRODUCER_ID: (_init_producer_id,),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (_ends_of_epochs,),
        ApiKey.ADD_PARTITIONS_TO_TXN: (_add_partitions_to_txn,),
        ApiKey.ADD_OFFSETS_TO_TXN: (*_WRITE_ID, *_READ_GROUP),
        ApiKey.END_TXN: _WRITE_ID,
        ApiKey.WRITE_TXN_MARKERS: (_write_txn_markers,),
        ApiKey.TXN_OFFSET_COMMIT: (*_WRITE_ID, *_READ_GROUP, _each_topic(_O.READ)),
        ApiKey.DESCRIBE_ACLS: (_needs_of_cluster(_O.DESCRIBE),),
        ApiKey.CREATE_ACLS: _ALTER_CLUSTER,
        ApiKey.DELETE_ACLS: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS: (_settings(_O.DESCRIBE_CONFIGS, "results", _CONFIGURED),),
        ApiKey.ALTER_CONFIGS: _ALTER_SETTINGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS: (_needs(_O.ALTER, _R.CLUSTER),),
        ApiKey.DESCRIBE_LOG_DIRS: (_needs(_O.DESCRIBE, _R.CLUSTER),),
        ApiKey.SASL_AUTHENTICATE: (),
        ApiKey.CREATE_PARTITIONS: (_each_topic(_O.ALTER, answered="results"),),
        ApiKey.CREATE_DELEGATION_TOKEN: (_create_delegation_token,),
        ApiKey.RENEW_DELEGATION_TOKEN: (),
        ApiKey.EXPIRE_DELEGATION_TOKEN: (),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: (),
        ApiKey.DELETE_GROUPS: (
            _each_name(_O.DELETE, _R.GROUP, "groups_names", answered="results"),
        ),
        ApiKey.ELECT_LEADERS: _ALTER_CLUSTER,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTER_SETTINGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER_CLUSTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (_needs_of_cluster(_O.DESCRIBE),),
        ApiKey.OFFSET_DELETE: (
            _needs(_O.DELETE, _R.GROUP, "group_id"),
            _each_topic(_O.READ),
        ),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (_needs(_O.DESCRIBE_CONFIGS, _R.CLUSTER),),
        ApiKey.ALTER_CLIENT_QUOTAS: (
            _needs(_O.ALTER_CONFIGS, _R.CLUSTER, text=_TEXTS[_R.CLUSTER]),
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_needs(_O.DESCRIBE, _R.CLUSTER),),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_QUORUM: (_needs(_O.DESCRIBE, _R.CLUSTER, text=_TEXTS[_R.CLUSTER]),),
        ApiKey.UPDATE_FEATURES: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_CLUSTER: (),
        ApiKey.DESCRIBE_PRODUCERS: (_each_topic(_O.READ, text=_TEXTS[_R.TOPIC]),),
        ApiKey.UNREGISTER_BROKER: _ALTER_CLUSTER,
        ApiKey.DESCRIBE_TRANSACTIONS: (_describe_transactions,),
        ApiKey.LIST_TRANSACTIONS: (
            _lists(_O.DESCRIBE, _R.TRANSACTIONAL_ID, "transaction_states", "transactional_id"),
        ),
        ApiKey.ALLOCATE_PRODUCER_IDS: (_needs(_O.CLUSTER_ACTION, _R.CLUSTER),),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (_consumer_group_heartbeat,),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (_consumer_group_describe,),
        ApiKey.LIST_CONFIG_RESOURCES: (_needs(_O.DESCRIBE_CONFIGS, _R.CLUSTER),),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_describe_topic_partitions,),
    }
)
"""In Kafka's order of checks; an API without rules is for everybody."""
