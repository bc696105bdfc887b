"""What a consumer has done until now, by Kafka's names of groups and metrics.

Source: `FetchMetricsRegistry`, `ConsumerCoordinatorMetrics`, `KafkaConsumerMetrics` of Kafka 4.3.1.
"""

from __future__ import annotations

from impl.consumer.consumer_requests import ConsumerRequests
from impl.consumer.fetcher import Fetcher
from impl.consumer.membership import MembershipManager
from impl.consumer.offset_requests import OffsetRequests


def read_metrics(
    requests: ConsumerRequests,
    fetcher: Fetcher,
    offsets: OffsetRequests,
    group: MembershipManager,
) -> dict[str, dict[str, float]]:
    """See `Consumer.metrics`."""
    lags = {
        place: max(0, fetcher.log_ends[place].high_watermark - part.position)
        for place, part in fetcher.assigned.items()
        if place in fetcher.log_ends and part.position is not None
    }
    return {
        "consumer-metrics": {"request-total": requests.sent},
        "consumer-fetch-manager-metrics": {
            "fetch-total": fetcher.fetches,
            "bytes-consumed-total": fetcher.fetched_bytes,
            "records-consumed-total": fetcher.taken_records,
            "records-lag-max": max(lags.values(), default=0),
        },
        "consumer-coordinator-metrics": {
            "assigned-partitions": len(fetcher.assigned),
            "commit-total": offsets.commits,
            "rebalance-total": group.rebalances,
        },
        **{
            f"consumer-fetch-manager-metrics.{topic}-{index}": {"records-lag": lag}
            for (topic, index), lag in lags.items()
        },
    }
