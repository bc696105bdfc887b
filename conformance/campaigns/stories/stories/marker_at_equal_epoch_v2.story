# A marker comes again when the next transaction of V2 requests is open (KAFKA-19446).
requests: v2

for each
  | outcome | marker     |
  | commit  | P:2!COMMIT |
  | abort   | P:2!ABORT  |
  names
  p = begin
  a = topic
  open p a
  now = end p {outcome}
  "{outcome} again, nothing open": WriteTxnMarkers now a {outcome} transaction=2 -> NONE
  open now a
  "{outcome} again, the next one open": WriteTxnMarkers now a {outcome} transaction=2 -> NONE
    4.2+ -> INVALID_PRODUCER_EPOCH
  "{outcome} again, the partition then": partition a -> P:1#0 {marker} {marker} P:2#0 {marker}, stable
    4.2+ -> P:1#0 {marker} {marker} P:2#0, open from 3
