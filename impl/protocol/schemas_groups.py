"""The messages of group membership, as `schemas` reads them: fields with their versions.

Sources: the message definitions of Kafka 4.x and 3.9 (`JoinGroupRequest.json` and its siblings).
"""

from typing import Final

TABLE: Final = """
api 11 JOIN_GROUP versions 0-9 flexible 6
request
  group_id string
  session_timeout_ms int32
  rebalance_timeout_ms int32 1+ = -1
  member_id string
  group_instance_id string? 5+ = null
  protocol_type string
  protocols []
    name string
    metadata bytes
  reason string? 8+ = null
response
  throttle_time_ms int32 2+ = 0
  error_code int16
  generation_id int32 = -1
  protocol_type string? 7+ = null
  protocol_name string?7+
  leader string
  skip_assignment bool 9+ = false
  member_id string
  members []
    member_id string
    group_instance_id string? 5+ = null
    metadata bytes

api 12 HEARTBEAT versions 0-4 flexible 4
request
  group_id string
  generation_id int32
  member_id string
  group_instance_id string? 3+ = null
response
  throttle_time_ms int32 1+ = 0
  error_code int16

api 13 LEAVE_GROUP versions 0-5 flexible 4
request
  group_id string
  member_id string 0-2
  members [] 3+
    member_id string
    group_instance_id string? = null
    reason string? 5+ = null
response
  throttle_time_ms int32 1+ = 0
  error_code int16
  members [] 3+
    member_id string
    group_instance_id string?
    error_code int16

api 14 SYNC_GROUP versions 0-5 flexible 4
request
  group_id string
  generation_id int32
  member_id string
  group_instance_id string? 3+ = null
  protocol_type string? 5+ = null
  protocol_name string? 5+ = null
  assignments []
    member_id string
    assignment bytes
response
  throttle_time_ms int32 1+ = 0
  error_code int16
  protocol_type string? 5+ = null
  protocol_name string? 5+ = null
  assignment bytes

api 15 DESCRIBE_GROUPS versions 0-6 flexible 5
request
  groups []string
  include_authorized_operations bool 3+ = false
response
  throttle_time_ms int32 1+ = 0
  groups []
    error_code int16
    error_message string? 6+ = null
    group_id string
    group_state string
    protocol_type string
    protocol_data string
    members []
      member_id string
      group_instance_id string? 4+ = null
      client_id string
      client_host string
      member_metadata bytes
      member_assignment bytes
    authorized_operations int32 3+ = -2147483648

api 16 LIST_GROUPS versions 0-5 flexible 3
request
  states_filter []string 4+
  types_filter []string 5+
response
  throttle_time_ms int32 1+ = 0
  error_code int16
  groups []
    group_id string
    protocol_type string
    group_state string 4+
    group_type string 5+

api 42 DELETE_GROUPS versions 0-2 flexible 2
request
  groups_names []string
response
  throttle_time_ms int32 = 0
  results []
    group_id string
    error_code int16

api 47 OFFSET_DELETE versions 0-0 flexible 1
request
  group_id string
  topics []
    name string
    partitions []
      partition_index int32
response
  error_code int16
  throttle_time_ms int32 = 0
  topics []
    name string
    partitions []
      partition_index int32
      error_code int16

record CONSUMER_PROTOCOL_SUBSCRIPTION versions 0-3 flexible 4
  topics []string
  user_data bytes? = null
  owned_partitions [] 1+ = []
    topic string
    partitions []int32
  generation_id int32 2+ = -1
  rack_id string? 3+ = null

record CONSUMER_PROTOCOL_ASSIGNMENT versions 0-3 flexible 4
  assigned_partitions []
    topic string
    partitions []int32
  user_data bytes? = null

record STICKY_ASSIGNOR_USER_DATA versions 0-1 flexible 2
  previous_assignment []
    topic string
    partitions []int32
  generation int32 1+ = -1

record COOPERATIVE_STICKY_USER_DATA versions 0-0 flexible 1
  generation int32

record GROUP_METADATA_KEY versions 2-2 flexible 3
  group string

record GROUP_METADATA_VALUE versions 0-4 flexible 4
  protocol_type string
  generation int32
  protocol string?
  leader string?
  current_state_timestamp int64 2+ = -1
  members []
    member_id string
    group_instance_id string? 3+ = null
    client_id string
    client_host string
    rebalance_timeout int32 1+ = -1
    session_timeout int32
    subscription bytes
    assignment bytes
"""
