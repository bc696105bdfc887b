"""The messages and records of consumer groups (KIP-848), as `schemas` reads them.

Sources: the message definitions of Kafka 4.3 (`ConsumerGroupHeartbeatRequest.json`,
`ConsumerGroupMetadataKey.json` and their siblings). Records of members in key version 4, the topics
of a group before 4.1, are only removed.
"""

from typing import Final

TABLE: Final = """
api 68 CONSUMER_GROUP_HEARTBEAT versions 0-1 flexible 0
request
  group_id string
  member_id string
  member_epoch int32
  instance_id string? = null
  rack_id string? = null
  rebalance_timeout_ms int32 = -1
  subscribed_topic_names []string? = null
  subscribed_topic_regex string? 1+ = null
  server_assignor string? = null
  topic_partitions []? = null
    topic_id uuid
    partitions []int32
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  member_id string? = null
  member_epoch int32 = 0
  heartbeat_interval_ms int32 = 0
  assignment {}? = null
    topic_partitions []
      topic_id uuid
      partitions []int32

api 69 CONSUMER_GROUP_DESCRIBE versions 0-1 flexible 0
request
  group_ids []string
  include_authorized_operations bool = false
response
  throttle_time_ms int32 = 0
  groups []
    error_code int16
    error_message string? = null
    group_id string
    group_state string = ""
    group_epoch int32 = 0
    assignment_epoch int32 = 0
    assignor_name string = ""
    members [] = []
      member_id string
      instance_id string? = null
      rack_id string? = null
      member_epoch int32
      client_id string
      client_host string
      subscribed_topic_names []string
      subscribed_topic_regex string? = null
      assignment {}
        topic_partitions [] = []
          topic_id uuid
          topic_name string
          partitions []int32
      target_assignment {}
        topic_partitions [] = []
          topic_id uuid
          topic_name string
          partitions []int32
      member_type int8 1+ = -1
    authorized_operations int32 = -2147483648

record CONSUMER_GROUP_METADATA_KEY versions 3-3 flexible 4
  group_id string

record CONSUMER_GROUP_METADATA_VALUE versions 0-0 flexible 0
  epoch int32
  metadata_hash int64 = 0 tag 0

record CONSUMER_GROUP_PARTITION_METADATA_KEY versions 4-4 flexible 5
  group_id string

record CONSUMER_GROUP_MEMBER_METADATA_KEY versions 5-5 flexible 6
  group_id string
  member_id string

record CONSUMER_GROUP_MEMBER_METADATA_VALUE versions 0-0 flexible 0
  instance_id string?
  rack_id string?
  client_id string
  client_host string
  subscribed_topic_names []string
  subscribed_topic_regex string?
  rebalance_timeout_ms int32 = -1
  server_assignor string?
  classic_member_metadata {}? tag 0
    session_timeout_ms int32 = 0
    supported_protocols [] = []
      name string
      metadata bytes

record CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY versions 6-6 flexible 7
  group_id string

record CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE versions 0-0 flexible 0
  assignment_epoch int32
  assignment_timestamp int64 = 0 tag 0

record CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY versions 7-7 flexible 8
  group_id string
  member_id string

record CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE versions 0-0 flexible 0
  topic_partitions []
    topic_id uuid
    partitions []int32

record CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY versions 8-8 flexible 9
  group_id string
  member_id string

record CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE versions 0-0 flexible 0
  member_epoch int32
  previous_member_epoch int32
  state int8
  assigned_partitions []
    topic_id uuid
    partitions []int32
    assignment_epochs []int32? = null tag 0
  partitions_pending_revocation []
    topic_id uuid
    partitions []int32
    assignment_epochs []int32? = null tag 0

record CONSUMER_GROUP_REGULAR_EXPRESSION_KEY versions 16-16 flexible 17
  group_id string
  regular_expression string

record CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE versions 0-0 flexible 0
  topics []string
  version int64
  timestamp int64
"""
