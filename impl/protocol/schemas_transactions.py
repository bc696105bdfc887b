"""The messages of transactions and group offsets, and the records of `__transaction_state`.

Sources: the message definitions of Kafka 4.x and 3.9 (`EndTxnRequest.json` and its siblings,
`TransactionLogKey.json`, `TransactionLogValue.json`); KIP-98, KIP-447, KIP-890, KIP-1228.
"""

from typing import Final

TABLE: Final = """
api 8 OFFSET_COMMIT versions 0-10 flexible 8
request
  group_id string
  generation_id_or_member_epoch int32 1+ = -1
  member_id string 1+
  group_instance_id string? 7+ = null
  retention_time_ms int64 2-4 = -1
  topics []
    name string 0-9
    topic_id uuid 10+
    partitions []
      partition_index int32
      committed_offset int64
      committed_leader_epoch int32 6+ = -1
      commit_timestamp int64 1 = -1
      committed_metadata string?
response
  throttle_time_ms int32 3+ = 0
  topics []
    name string 0-9
    topic_id uuid 10+
    partitions []
      partition_index int32
      error_code int16

api 9 OFFSET_FETCH versions 0-10 flexible 6
request
  group_id string 0-7
  topics []?2+ 0-7
    name string 0-7
    partition_indexes []int32 0-7
  groups [] 8+
    group_id string
    member_id string? 9+ = null
    member_epoch int32 9+ = -1
    topics []?
      name string 8-9
      topic_id uuid 10+
      partition_indexes []int32
  require_stable bool 7+ = false
response
  throttle_time_ms int32 3+ = 0
  topics [] 0-7
    name string 0-7
    partitions [] 0-7
      partition_index int32 0-7
      committed_offset int64 0-7
      committed_leader_epoch int32 5-7 = -1
      metadata string? 0-7
      error_code int16 0-7
  error_code int16 2-7 = 0
  groups [] 8+
    group_id string
    topics []
      name string 8-9
      topic_id uuid 10+
      partitions []
        partition_index int32
        committed_offset int64
        committed_leader_epoch int32 = -1
        metadata string?
        error_code int16
    error_code int16 = 0

api 10 FIND_COORDINATOR versions 0-6 flexible 3
request
  key string 0-3
  key_type int8 1+ = 0
  coordinator_keys []string 4+
response
  throttle_time_ms int32 1+ = 0
  error_code int16 0-3
  error_message string? 1-3 = null
  node_id int32 0-3
  host string 0-3
  port int32 0-3
  coordinators [] 4+
    key string
    node_id int32
    host string
    port int32
    error_code int16
    error_message string? = null

api 22 INIT_PRODUCER_ID versions 0-5 flexible 2
request
  transactional_id string? = null
  transaction_timeout_ms int32
  producer_id int64 3+ = -1
  producer_epoch int16 3+ = -1
response
  throttle_time_ms int32 = 0
  error_code int16
  producer_id int64 = -1
  producer_epoch int16 = -1

api 24 ADD_PARTITIONS_TO_TXN versions 0-5 flexible 3
request
  transactions [] 4+
    transactional_id string
    producer_id int64
    producer_epoch int16
    verify_only bool = false
    topics []
      name string
      partitions []int32
  v3_and_below_transactional_id string 0-3
  v3_and_below_producer_id int64 0-3
  v3_and_below_producer_epoch int16 0-3
  v3_and_below_topics [] 0-3
    name string
    partitions []int32
response
  throttle_time_ms int32 = 0
  error_code int16 4+
  results_by_transaction [] 4+
    transactional_id string
    topic_results []
      name string
      results_by_partition []
        partition_index int32
        partition_error_code int16
  results_by_topic_v3_and_below [] 0-3
    name string
    results_by_partition []
      partition_index int32
      partition_error_code int16

api 25 ADD_OFFSETS_TO_TXN versions 0-4 flexible 3
request
  transactional_id string
  producer_id int64
  producer_epoch int16
  group_id string
response
  throttle_time_ms int32 = 0
  error_code int16

api 26 END_TXN versions 0-5 flexible 3
request
  transactional_id string
  producer_id int64
  producer_epoch int16
  committed bool
response
  throttle_time_ms int32 = 0
  error_code int16
  producer_id int64 5+ = -1
  producer_epoch int16 5+ = -1

api 27 WRITE_TXN_MARKERS versions 0-2 flexible 1
request
  markers []
    producer_id int64
    producer_epoch int16
    transaction_result bool
    topics []
      name string
      partition_indexes []int32
    coordinator_epoch int32
    transaction_version int8 2+ = 0
response
  markers []
    producer_id int64
    topics []
      name string
      partitions []
        partition_index int32
        error_code int16

api 28 TXN_OFFSET_COMMIT versions 0-5 flexible 3
request
  transactional_id string
  group_id string
  producer_id int64
  producer_epoch int16
  generation_id int32 3+ = -1
  member_id string 3+ = ""
  group_instance_id string? 3+ = null
  topics []
    name string
    partitions []
      partition_index int32
      committed_offset int64
      committed_leader_epoch int32 2+ = -1
      committed_metadata string?
response
  throttle_time_ms int32 = 0
  topics []
    name string
    partitions []
      partition_index int32
      error_code int16

api 65 DESCRIBE_TRANSACTIONS versions 0-0 flexible 0
request
  transactional_ids []string
response
  throttle_time_ms int32 = 0
  transaction_states []
    error_code int16
    transactional_id string
    transaction_state string
    transaction_timeout_ms int32
    transaction_start_time_ms int64
    producer_id int64
    producer_epoch int16
    topics []
      topic string
      partitions []int32

api 66 LIST_TRANSACTIONS versions 0-2 flexible 0
request
  state_filters []string
  producer_id_filters []int64
  duration_filter int64 1+ = -1
  transactional_id_pattern string? 2+ = null
response
  throttle_time_ms int32 = 0
  error_code int16
  unknown_state_filters []string
  transaction_states []
    transactional_id string
    producer_id int64
    transaction_state string

record TRANSACTION_LOG_KEY versions 0-0 flexible 1
  transactional_id string

record TRANSACTION_LOG_VALUE versions 0-1 flexible 1
  producer_id int64
  previous_producer_id int64 1+ = -1 tag 0
  next_producer_id int64 1+ = -1 tag 1
  producer_epoch int16
  next_producer_epoch int16 1+ = -1 tag 3
  transaction_timeout_ms int32
  transaction_status int8
  transaction_partitions []?
    topic string
    partition_ids []int32
  transaction_last_update_timestamp_ms int64
  transaction_start_timestamp_ms int64
  client_transaction_version int16 1+ = 0 tag 2

record OFFSET_COMMIT_KEY versions 0-1 flexible 2
  group string
  topic string
  partition int32

record OFFSET_COMMIT_VALUE versions 0-4 flexible 4
  offset int64
  leader_epoch int32 3+ = -1
  metadata string
  commit_timestamp int64
  expire_timestamp int64 1 = -1
  topic_id uuid 4+ = zero tag 0
"""
