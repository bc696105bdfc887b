"""The messages about topics, records and ids, as `schemas` reads them: fields with their versions.

Sources: the message definitions of Kafka 4.x and 3.9 (`ProduceRequest.json` and its siblings).
"""

from typing import Final

TABLE: Final = """
header request versions 1-2 flexible 2
  api_key int16
  api_version int16
  correlation_id int32
  client_id classic? = null

header response versions 0-1 flexible 1
  correlation_id int32

header record versions 0-0 flexible 1
  version int16

api 0 PRODUCE versions 0-13 flexible 9
request
  transactional_id string? 3+ = null
  acks int16
  timeout_ms int32
  topics []
    name string 0-12
    topic_id uuid 13+
    partitions []
      index int32
      records bytes?
response
  topics []
    name string 0-12
    topic_id uuid 13+
    partitions []
      index int32
      error_code int16
      base_offset int64
      log_append_time_ms int64 2+ = -1
      log_start_offset int64 5+ = -1
      record_errors [] 8+ = []
        batch_index int32
        batch_index_error_message string? = null
      error_message string? 8+ = null
      current_leader {} 10+ tag 0
        leader_id int32 = -1
        leader_epoch int32 = -1
  throttle_time_ms int32 1+ = 0
  node_endpoints [] 10+ = [] tag 0
    node_id int32
    host string
    port int32
    rack string? = null

api 1 FETCH versions 0-18 flexible 12
request
  cluster_id string? 12+ = null tag 0
  replica_id int32 0-14 = -1
  replica_state {} 15+ tag 1
    replica_id int32 = -1
    replica_epoch int64 = -1
  max_wait_ms int32
  min_bytes int32
  max_bytes int32 3+ = 2147483647
  isolation_level int8 4+ = 0
  session_id int32 7+ = 0
  session_epoch int32 7+ = -1
  topics []
    topic string 0-12
    topic_id uuid 13+
    partitions []
      partition int32
      current_leader_epoch int32 9+ = -1
      fetch_offset int64
      last_fetched_epoch int32 12+ = -1
      log_start_offset int64 5+ = -1
      partition_max_bytes int32
      replica_directory_id uuid 17+ = zero tag 0
      high_watermark int64 18+ = 9223372036854775807 tag 1
  forgotten_topics_data [] 7+ = []
    topic string 7-12
    topic_id uuid 13+
    partitions []int32
  rack_id string 11+ = ""
response
  throttle_time_ms int32 1+ = 0
  error_code int16 7+ = 0
  session_id int32 7+ = 0
  responses []
    topic string 0-12
    topic_id uuid 13+
    partitions []
      partition_index int32
      error_code int16
      high_watermark int64
      last_stable_offset int64 4+ = -1
      log_start_offset int64 5+ = -1
      diverging_epoch {} 12+ tag 0
        epoch int32 = -1
        end_offset int64 = -1
      current_leader {} 12+ tag 1
        leader_id int32 = -1
        leader_epoch int32 = -1
      snapshot_id {} 12+ tag 2
        end_offset int64 = -1
        epoch int32 = -1
      aborted_transactions []? 4+ = null
        producer_id int64
        first_offset int64
      preferred_read_replica int32 11+ = -1
      records bytes?
  node_endpoints [] 16+ = [] tag 0
    node_id int32
    host string
    port int32
    rack string? = null

api 2 LIST_OFFSETS versions 0-11 flexible 6
request
  replica_id int32
  isolation_level int8 2+ = 0
  topics []
    name string
    partitions []
      partition_index int32
      current_leader_epoch int32 4+ = -1
      timestamp int64
      max_num_offsets int32 0 = 1
  timeout_ms int32 10+
response
  throttle_time_ms int32 2+ = 0
  topics []
    name string
    partitions []
      partition_index int32
      error_code int16
      old_style_offsets []int64 0 = []
      timestamp int64 1+ = -1
      offset int64 1+ = -1
      leader_epoch int32 4+ = -1

api 3 METADATA versions 0-13 flexible 9
request
  topics []?1+
    topic_id uuid 10+ = zero
    name string?10+
  allow_auto_topic_creation bool 4+ = true
  include_cluster_authorized_operations bool 8-10 = false
  include_topic_authorized_operations bool 8+ = false
response
  throttle_time_ms int32 3+ = 0
  brokers []
    node_id int32
    host string
    port int32
    rack string? 1+ = null
  cluster_id string? 2+ = null
  controller_id int32 1+ = -1
  topics []
    error_code int16
    name string?12+
    topic_id uuid 10+ = zero
    is_internal bool 1+ = false
    partitions []
      error_code int16
      partition_index int32
      leader_id int32
      leader_epoch int32 7+ = -1
      replica_nodes []int32
      isr_nodes []int32
      offline_replicas []int32 5+ = []
    topic_authorized_operations int32 8+ = -2147483648
  cluster_authorized_operations int32 8-10 = -2147483648
  error_code int16 13+ = 0

api 18 API_VERSIONS versions 0-4 flexible 3
request
  client_software_name string 3+ = ""
  client_software_version string 3+ = ""
response
  error_code int16
  api_keys []
    api_key int16
    min_version int16
    max_version int16
  throttle_time_ms int32 1+ = 0
  supported_features [] 3+ = [] tag 0
    name string
    min_version int16
    max_version int16
  finalized_features_epoch int64 3+ = -1 tag 1
  finalized_features [] 3+ = [] tag 2
    name string
    max_version_level int16
    min_version_level int16
  zk_migration_ready bool 3+ = false tag 3

api 19 CREATE_TOPICS versions 0-7 flexible 5
request
  topics []
    name string
    num_partitions int32
    replication_factor int16
    assignments [] = []
      partition_index int32
      broker_ids []int32
    configs [] = []
      name string
      value string?
  timeout_ms int32 = 60000
  validate_only bool 1+ = false
response
  throttle_time_ms int32 2+ = 0
  topics []
    name string
    topic_id uuid 7+ = zero
    error_code int16
    error_message string? 1+ = null
    topic_config_error_code int16 5+ = 0 tag 0
    num_partitions int32 5+ = -1
    replication_factor int16 5+ = -1
    configs []?5+ 5+ = []
      name string
      value string?
      read_only bool
      config_source int8 = -1
      is_sensitive bool

api 20 DELETE_TOPICS versions 0-6 flexible 4
request
  topics [] 6+
    name string? = null
    topic_id uuid = zero
  topic_names []string 0-5
  timeout_ms int32
response
  throttle_time_ms int32 1+ = 0
  responses []
    name string?6+
    topic_id uuid 6+ = zero
    error_code int16
    error_message string? 5+ = null

api 21 DELETE_RECORDS versions 0-2 flexible 2
request
  topics []
    name string
    partitions []
      partition_index int32
      offset int64
  timeout_ms int32
response
  throttle_time_ms int32 = 0
  topics []
    name string
    partitions []
      partition_index int32
      low_watermark int64
      error_code int16

api 23 OFFSET_FOR_LEADER_EPOCH versions 0-4 flexible 4
request
  replica_id int32 3+ = -2
  topics []
    topic string
    partitions []
      partition int32
      current_leader_epoch int32 2+ = -1
      leader_epoch int32
response
  throttle_time_ms int32 2+ = 0
  topics []
    topic string
    partitions []
      error_code int16
      partition int32
      leader_epoch int32 1+ = -1
      end_offset int64 = -1

api 61 DESCRIBE_PRODUCERS versions 0-0 flexible 0
request
  topics []
    name string
    partition_indexes []int32
response
  throttle_time_ms int32 = 0
  topics []
    name string
    partitions []
      partition_index int32
      error_code int16
      error_message string? = null
      active_producers []
        producer_id int64
        producer_epoch int32
        last_sequence int32 = -1
        last_timestamp int64 = -1
        coordinator_epoch int32
        current_txn_start_offset int64 = -1

api 67 ALLOCATE_PRODUCER_IDS versions 0-0 flexible 0
request
  broker_id int32
  broker_epoch int64 = -1
response
  throttle_time_ms int32 = 0
  error_code int16
  producer_id_start int64
  producer_id_len int32
"""
