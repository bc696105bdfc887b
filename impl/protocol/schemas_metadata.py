"""The records of `__cluster_metadata` that a broker here writes, as `schemas` reads them.

Sources: the definitions in Kafka's metadata module (`TopicRecord.json` and its siblings); KIP-631.
"""

from typing import Final

TABLE: Final = """
record TOPIC_RECORD versions 0-0 flexible 0
  name string
  topic_id uuid

record PARTITION_RECORD versions 0-2 flexible 0
  partition_id int32 = -1
  topic_id uuid
  replicas []int32
  isr []int32
  removing_replicas []int32
  adding_replicas []int32
  leader int32 = -1
  leader_recovery_state int8 = 0 tag 0
  leader_epoch int32 = -1
  partition_epoch int32 = -1
  directories []uuid 1+
  eligible_leader_replicas []int32?2+ 2+ = null tag 1
  last_known_elr []int32?2+ 2+ = null tag 2

record CONFIG_RECORD versions 0-0 flexible 0
  resource_type int8
  resource_name string
  name string
  value string?

record PARTITION_CHANGE_RECORD versions 0-2 flexible 0
  partition_id int32 = -1
  topic_id uuid
  isr []int32? = null tag 0
  leader int32 = -2 tag 1
  replicas []int32? = null tag 2
  removing_replicas []int32? = null tag 3
  adding_replicas []int32? = null tag 4
  leader_recovery_state int8 = -1 tag 5
  directories []uuid?1+ 1+ = null tag 8
  eligible_leader_replicas []int32?2+ 2+ = null tag 6
  last_known_elr []int32?2+ 2+ = null tag 7

record REMOVE_TOPIC_RECORD versions 0-0 flexible 0
  topic_id uuid

record USER_SCRAM_CREDENTIAL_RECORD versions 0-0 flexible 0
  name string
  mechanism int8
  salt bytes
  stored_key bytes
  server_key bytes
  iterations int32

record FEATURE_LEVEL_RECORD versions 0-0 flexible 0
  name string
  feature_level int16

record CLIENT_QUOTA_RECORD versions 0-0 flexible 0
  entity []
    entity_type string
    entity_name string?
  key string
  value float64
  remove bool

record ACCESS_CONTROL_ENTRY_RECORD versions 0-0 flexible 0
  id uuid
  resource_type int8
  resource_name string
  pattern_type int8
  principal string
  host string
  operation int8
  permission_type int8

record REMOVE_ACCESS_CONTROL_ENTRY_RECORD versions 0-0 flexible 0
  id uuid

record PRODUCER_IDS_RECORD versions 0-0 flexible 0
  broker_id int32
  broker_epoch int64 = -1
  next_producer_id int64

record REMOVE_USER_SCRAM_CREDENTIAL_RECORD versions 0-0 flexible 0
  name string
  mechanism int8
"""
