"""A broker, a producer and a consumer in one process: what is aborted is never read."""

import asyncio

from kafka_eos import Consumer, Producer, Server


async def main():
    """Abort one transaction, commit another, and read."""
    async with Server() as broker:
        address = f"127.0.0.1:{broker.port}"
        async with Producer(address, transactional_id="orders-1", linger_ms=0) as producer:
            for outcome, value in (("abort", b"a"), ("commit", b"b")):
                await producer.begin_transaction()
                await producer.send_and_wait("orders", value)
                await getattr(producer, f"{outcome}_transaction")()
                print(f"{outcome}: {value}")
        reading = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        async with Consumer(bootstrap_servers=address, **reading) as consumer:
            consumer.assign([("orders", 0)])
            record = await consumer.getone()
            print(f"read: {record.value} at offset {record.offset}")


asyncio.run(main())
