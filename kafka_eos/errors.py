"""The errors of `Producer`, `Consumer` and `Broker`; each says what happened, and what is legal.

`ClientError` is the base of most: its `advice` is RETRY, ABORT or GIVE_UP, and `legal_calls` names
the calls of a transactional producer that are legal next. Connections, settings of clusters and
addresses have errors of their own, derived from Python's: `NoBrokersAvailable` is a
`ConnectionError`. Those of `Broker` are `ValueError`s, as are `DamagedFile` and `DamagedSegment`,
but for `DirectoryInUse` and `ForeignDirectory`, which are `OSError`s, `UnknownPartitionOrBroker`, a
`KeyError`, and the warning `UnusedFault`.
"""

from impl.addresses import InvalidBootstrapServers as InvalidBootstrapServers
from impl.broker.cluster import UnknownPartitionOrBroker as UnknownPartitionOrBroker
from impl.broker.durable_cluster import ForeignDirectory as ForeignDirectory
from impl.broker.faults import InvalidFault as InvalidFault
from impl.broker.injected_faults import UnusedFault as UnusedFault
from impl.broker.node_settings import UnknownSetting as UnknownSetting
from impl.broker.topic_refused import TopicRefused as TopicRefused
from impl.client.errors import Advice as Advice
from impl.client.errors import ClientError as ClientError
from impl.client.errors import CommitFailedError as CommitFailedError
from impl.client.errors import ConsumerError as ConsumerError
from impl.client.errors import IllegalStateError as IllegalStateError
from impl.client.errors import InvalidArgumentError as InvalidArgumentError
from impl.client.errors import KafkaTimeoutError as KafkaTimeoutError
from impl.client.errors import ProducerError as ProducerError
from impl.client.errors import UnknownSettingError as UnknownSettingError
from impl.client.errors import UnknownTopicOrPartitionError as UnknownTopicOrPartitionError
from impl.client.network_client import NoBrokersAvailable as NoBrokersAvailable
from impl.client.network_client import UnsupportedClusterError as UnsupportedClusterError
from impl.client.security import AuthenticationFailedError as AuthenticationFailedError
from impl.consumer.errors import ConsumerStoppedError as ConsumerStoppedError
from impl.consumer.errors import LogTruncationError as LogTruncationError
from impl.consumer.errors import NoOffsetForPartitionError as NoOffsetForPartitionError
from impl.consumer.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
from impl.consumer.errors import RecordDeserializationError as RecordDeserializationError
from impl.consumer.errors import RefusedError as RefusedError
from impl.log.disk import DirectoryInUse as DirectoryInUse
from impl.producer.errors import AbortedError as AbortedError
from impl.producer.errors import AuthorizationError as AuthorizationError
from impl.producer.errors import BufferExhaustedError as BufferExhaustedError
from impl.producer.errors import ConfigError as ConfigError
from impl.producer.errors import DeliveryError as DeliveryError
from impl.producer.errors import DeliveryTimeoutError as DeliveryTimeoutError
from impl.producer.errors import FatalProducerError as FatalProducerError
from impl.producer.errors import ProducerClosedError as ProducerClosedError
from impl.producer.errors import ProducerFenced as ProducerFenced
from impl.producer.errors import RecordTooLargeError as RecordTooLargeError
from impl.producer.errors import SkippedRecordsError as SkippedRecordsError
from impl.producer.errors import TooManyPartitionsError as TooManyPartitionsError
from impl.producer.errors import TopicRefusedError as TopicRefusedError
from impl.producer.errors import TransactionAbortableError as TransactionAbortableError
from impl.producer.errors import TransactionAbortedError as TransactionAbortedError
from impl.settings import InvalidArgument as InvalidArgument
from impl.settings import InvalidSetting as InvalidSetting
from impl.storage.damaged_files import DamagedFile as DamagedFile
from impl.storage.damaged_files import DamagedSegment as DamagedSegment
