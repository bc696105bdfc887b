"""The messages of security, as `schemas` reads them: fields with their versions.

Sources: the message definitions of Kafka 4.x and 3.9 (`SaslHandshakeRequest.json` and its
siblings).
"""

from typing import Final

TABLE: Final = """
api 17 SASL_HANDSHAKE versions 0-1 flexible 32767
request
  mechanism string
response
  error_code int16
  mechanisms []string

api 29 DESCRIBE_ACLS versions 0-3 flexible 2
request
  resource_type_filter int8
  resource_name_filter string?
  pattern_type_filter int8 1+ = 3
  principal_filter string?
  host_filter string?
  operation int8
  permission_type int8
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  resources []
    resource_type int8
    resource_name string
    pattern_type int8 1+ = 3
    acls []
      principal string
      host string
      operation int8
      permission_type int8

api 30 CREATE_ACLS versions 0-3 flexible 2
request
  creations []
    resource_type int8
    resource_name string
    resource_pattern_type int8 1+ = 3
    principal string
    host string
    operation int8
    permission_type int8
response
  throttle_time_ms int32 = 0
  results []
    error_code int16
    error_message string? = null

api 31 DELETE_ACLS versions 0-3 flexible 2
request
  filters []
    resource_type_filter int8
    resource_name_filter string?
    pattern_type_filter int8 1+ = 3
    principal_filter string?
    host_filter string?
    operation int8
    permission_type int8
response
  throttle_time_ms int32 = 0
  filter_results []
    error_code int16
    error_message string? = null
    matching_acls []
      error_code int16
      error_message string? = null
      resource_type int8
      resource_name string
      pattern_type int8 1+ = 3
      principal string
      host string
      operation int8
      permission_type int8

api 36 SASL_AUTHENTICATE versions 0-2 flexible 2
request
  auth_bytes bytes
response
  error_code int16
  error_message string? = null
  auth_bytes bytes
  session_lifetime_ms int64 1+ = 0

api 50 DESCRIBE_USER_SCRAM_CREDENTIALS versions 0-0 flexible 0
request
  users []?
    name string
response
  throttle_time_ms int32 = 0
  error_code int16
  error_message string? = null
  results []
    user string
    error_code int16
    error_message string? = null
    credential_infos []
      mechanism int8
      iterations int32

api 51 ALTER_USER_SCRAM_CREDENTIALS versions 0-0 flexible 0
request
  deletions []
    name string
    mechanism int8
  upsertions []
    name string
    mechanism int8
    iterations int32
    salt bytes
    salted_password bytes
response
  throttle_time_ms int32 = 0
  results []
    user string
    error_code int16
    error_message string? = null

api 38 CREATE_DELEGATION_TOKEN versions 0-3 flexible 2
request
  owner_principal_type string? 3+
  owner_principal_name string? 3+
  renewers []
    principal_type string
    principal_name string
  max_lifetime_ms int64
response
  error_code int16
  principal_type string
  principal_name string
  token_requester_principal_type string 3+
  token_requester_principal_name string 3+
  issue_timestamp_ms int64
  expiry_timestamp_ms int64
  max_timestamp_ms int64
  token_id string
  hmac bytes
  throttle_time_ms int32 = 0

api 39 RENEW_DELEGATION_TOKEN versions 0-2 flexible 2
request
  hmac bytes
  renew_period_ms int64
response
  error_code int16
  expiry_timestamp_ms int64
  throttle_time_ms int32 = 0

api 40 EXPIRE_DELEGATION_TOKEN versions 0-2 flexible 2
request
  hmac bytes
  expiry_time_period_ms int64
response
  error_code int16
  expiry_timestamp_ms int64
  throttle_time_ms int32 = 0

api 41 DESCRIBE_DELEGATION_TOKEN versions 0-3 flexible 2
request
  owners []?
    principal_type string
    principal_name string
response
  error_code int16
  tokens []
    principal_type string
    principal_name string
    token_requester_principal_type string 3+
    token_requester_principal_name string 3+
    issue_timestamp int64
    expiry_timestamp int64
    max_timestamp int64
    token_id string
    hmac bytes
    renewers []
      principal_type string
      principal_name string
  throttle_time_ms int32 = 0
"""
