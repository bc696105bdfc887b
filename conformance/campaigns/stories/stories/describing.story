# DescribeTransactions of ids that cannot be described.
requests: v1

id = fresh nobody
"an id that nobody knows": describe {id} -> TRANSACTIONAL_ID_NOT_FOUND
"an empty id": describe empty -> INVALID_REQUEST
