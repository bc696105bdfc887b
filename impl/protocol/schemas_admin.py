"""The messages of administration, as `schemas` reads them: fields with their versions.

Sources: the message definitions of Kafka 4.x and 3.9 (`DescribeConfigsRequest.json` and its
siblings).
"""

from typing import Final

TABLE: Final = """
api 32 DESCRIBE_CONFIGS versions 0-4 flexible 4
request
  resources []
    resource_type int8
    resource_name string
    configuration_keys []string? = null
  include_synonyms bool 1+ = false
  include_documentation bool 3+ = false
response
  throttle_time_ms int32 = 0
  results []
    error_code int16
    error_message string? = null
    resource_type int8
    resource_name string
    configs []
      name string
      value string?
      read_only bool
      is_default bool 0
      config_source int8 1+ = -1
      is_sensitive bool
      synonyms [] 1+ = []
        name string
        value string?
        source int8
      config_type int8 3+ = 0
      documentation string? 3+ = null

api 33 ALTER_CONFIGS versions 0-2 flexible 2
request
  resources []
    resource_type int8
    resource_name string
    configs []
      name string
      value string?
  validate_only bool
response
  throttle_time_ms int32 = 0
  responses []
    error_code int16
    error_message string? = null
    resource_type int8
    resource_name string

api 35 DESCRIBE_LOG_DIRS versions 0-5 flexible 2
request
  topics []?
    topic string
    partitions []int32
response
  throttle_time_ms int32 = 0
  error_code int16 3+
  results []
    error_code int16
    log_dir string
    topics []
      name string
      partitions []
        partition_index int32
        partition_size int64
        offset_lag int64
        is_future_key bool
    total_bytes int64 4+ = -1
    usable_bytes int64 4+ = -1
    is_cordoned bool 5+ = false

api 37 CREATE_PARTITIONS versions 0-3 flexible 2
request
  topics []
    name string
    count int32
    assignments []?
      broker_ids []int32
  timeout_ms int32
  validate_only bool
response
  throttle_time_ms int32 = 0
  results []
    name string
    error_code int16
    error_message string? = null

api 44 INCREMENTAL_ALTER_CONFIGS versions 0-1 flexible 1
request
  resources []
    resource_type int8
    resource_name string
    configs []
      name string
      config_operation int8
      value string?
  validate_only bool
response
  throttle_time_ms int32 = 0
  responses []
    error_code int16
    error_message string? = null
    resource_type int8
    resource_name string

api 57 UPDATE_FEATURES versions 0-2 flexible 0
request
  timeout_ms int32 = 60000
  feature_updates []
    feature string
    max_version_level int16
    allow_downgrade bool 0
    upgrade_type int8 1+ = 1
  validate_only bool 1+ = false
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  results [] 0-1
    feature string
    error_code int16
    error_message string? = null

api 60 DESCRIBE_CLUSTER versions 0-2 flexible 0
request
  include_cluster_authorized_operations bool
  endpoint_type int8 1+ = 1
  include_fenced_brokers bool 2+
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  endpoint_type int8 1+ = 1
  cluster_id string
  controller_id int32 = -1
  brokers []
    broker_id int32
    host string
    port int32
    rack string? = null
    is_fenced bool 2+ = false
  cluster_authorized_operations int32 = -2147483648

api 74 LIST_CONFIG_RESOURCES versions 0-1 flexible 0
request
  resource_types []int8 1+
response
  throttle_time_ms int32 = 0
  error_code int16
  config_resources []
    resource_name string
    resource_type int8 1+ = 16

api 75 DESCRIBE_TOPIC_PARTITIONS versions 0-0 flexible 0
request
  topics []
    name string
  response_partition_limit int32 = 2000
  cursor {}? = null
    topic_name string
    partition_index int32
response
  throttle_time_ms int32 = 0
  topics []
    error_code int16
    name string?
    topic_id uuid = zero
    is_internal bool = false
    partitions []
      error_code int16
      partition_index int32
      leader_id int32
      leader_epoch int32 = -1
      replica_nodes []int32
      isr_nodes []int32
      eligible_leader_replicas []int32? = null
      last_known_elr []int32? = null
      offline_replicas []int32 = []
    topic_authorized_operations int32 = -2147483648
  next_cursor {}? = null
    topic_name string
    partition_index int32
"""
