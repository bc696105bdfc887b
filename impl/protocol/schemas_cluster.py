"""The messages about the cluster as a whole, as `schemas` reads them: fields with their versions.

Sources: the message definitions of Kafka 4.3 (`ElectLeadersRequest.json` and its siblings).
"""

from typing import Final

TABLE: Final = """
api 34 ALTER_REPLICA_LOG_DIRS versions 0-2 flexible 2
request
  dirs []
    path string
    topics []
      name string
      partitions []int32
response
  throttle_time_ms int32 = 0
  results []
    topic_name string
    partitions []
      partition_index int32
      error_code int16

api 43 ELECT_LEADERS versions 0-2 flexible 2
request
  election_type int8 1+
  topic_partitions []?
    topic string
    partitions []int32
  timeout_ms int32 = 60000
response
  throttle_time_ms int32 = 0
  error_code int16 1+
  replica_election_results []
    topic string
    partition_result []
      partition_id int32
      error_code int16
      error_message string? = null

api 45 ALTER_PARTITION_REASSIGNMENTS versions 0-1 flexible 0
request
  timeout_ms int32 = 60000
  allow_replication_factor_change bool 1+ = true
  topics []
    name string
    partitions []
      partition_index int32
      replicas []int32? = null
response
  throttle_time_ms int32 = 0
  allow_replication_factor_change bool 1+ = true
  error_code int16
  error_message string? = null
  responses []
    name string
    partitions []
      partition_index int32
      error_code int16
      error_message string? = null

api 46 LIST_PARTITION_REASSIGNMENTS versions 0-0 flexible 0
request
  timeout_ms int32 = 60000
  topics []? = null
    name string
    partition_indexes []int32
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  topics []
    name string
    partitions []
      partition_index int32
      replicas []int32
      adding_replicas []int32
      removing_replicas []int32

api 48 DESCRIBE_CLIENT_QUOTAS versions 0-1 flexible 1
request
  components []
    entity_type string
    match_type int8
    match string?
  strict bool
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  entries []?
    entity []
      entity_type string
      entity_name string?
    values []
      key string
      value float64

api 49 ALTER_CLIENT_QUOTAS versions 0-1 flexible 1
request
  entries []
    entity []
      entity_type string
      entity_name string?
    ops []
      key string
      value float64
      remove bool
  validate_only bool
response
  throttle_time_ms int32 = 0
  entries []
    error_code int16
    error_message string? = null
    entity []
      entity_type string
      entity_name string?

api 55 DESCRIBE_QUORUM versions 0-2 flexible 0
request
  topics []
    topic_name string
    partitions []
      partition_index int32
response
  error_code int16
  error_message string? 2+ = null
  topics []
    topic_name string
    partitions []
      partition_index int32
      error_code int16
      error_message string? 2+ = null
      leader_id int32
      leader_epoch int32
      high_watermark int64
      current_voters []
        replica_id int32
        replica_directory_id uuid 2+
        log_end_offset int64
        last_fetch_timestamp int64 1+ = -1
        last_caught_up_timestamp int64 1+ = -1
      observers []
        replica_id int32
        replica_directory_id uuid 2+
        log_end_offset int64
        last_fetch_timestamp int64 1+ = -1
        last_caught_up_timestamp int64 1+ = -1
  nodes [] 2+
    node_id int32
    listeners []
      name string
      host string
      port uint16

api 64 UNREGISTER_BROKER versions 0-0 flexible 0
request
  broker_id int32
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
"""
