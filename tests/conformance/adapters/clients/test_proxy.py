"""The network of a run: nothing that is seen may hang on how busy the machine is."""

import asyncio
import socket

import pytest

from conformance.adapters.clients import internal_steps
from conformance.adapters.clients.judgement import EXPLAINED, judge_trace
from conformance.adapters.clients.proxy import Proxy
from conformance.adapters.clients.run_plan import ClientSettings, RunPlan, Send
from conformance.adapters.clients.trace import ConnectionClosed, ConnectionOpened
from model.idempotent.variants import parse
from tests.conformance.adapters.clients.test_legacy import all_runs
from tests.conformance.adapters.clients.test_recorded import RELEASES, with_connections

pytestmark = pytest.mark.fast

PLAN = RunPlan(0, 0, ClientSettings(), (Send(0, 0),))


def address_of(proxy: Proxy) -> tuple[str, int]:
    host, _, port = proxy.bootstrap.rpartition(":")
    return host, int(port)


def test_a_run_is_not_over_before_its_connections_are_read_to_their_end():
    async def run() -> None:
        async with Proxy(PLAN) as proxy:
            _, first = await asyncio.open_connection(*address_of(proxy))
            _, second = await asyncio.open_connection(*address_of(proxy))
            while len(proxy.events) < 2:
                await asyncio.sleep(0)
            assert [type(event) for event in proxy.events] == [ConnectionOpened, ConnectionOpened]
            first.close()
            reading = asyncio.create_task(proxy.read_to_end())
            while not isinstance(proxy.events[-1], ConnectionClosed):
                await asyncio.sleep(0)
            assert not reading.done()
            second.close()
            await reading
            closed = [
                event.connection for event in proxy.events if isinstance(event, ConnectionClosed)
            ]
            assert closed == [0, 1]

    asyncio.run(run())


def test_the_ports_of_a_client_that_still_looks_for_its_node_are_given_to_nobody():
    async def run() -> None:
        async with Proxy(PLAN) as proxy:
            address = address_of(proxy)
            held = proxy.duplicate_ports()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        for port in held:
            port.close()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(address)

    asyncio.run(run())


@pytest.mark.parametrize("release", RELEASES)
def test_idle_connections_to_the_node_leave_few_states(release: str, monkeypatch):
    """A client under load opens one after the other and gives each up."""
    plain = [
        run
        for run in all_runs(release)
        if "lose_request" not in judge_trace(parse(release), run).rules
    ]
    assert len(plain) > 4
    for trace in plain[:4]:
        alone = judge_trace(parse(release), trace)
        judgement = judge_trace(parse(release), with_connections(trace, 40, to_node=True))
        assert (judgement.verdict, judgement.requests) == (EXPLAINED, alone.requests)
        assert judgement.most_states <= alone.most_states
    monkeypatch.setattr(internal_steps, "is_idle", lambda *_: False)
    crowded = judge_trace(parse(release), with_connections(trace, 40, to_node=True))
    assert crowded.most_states > judgement.most_states
