"""The rules of a producer's settings, with and without the user's own words."""

import pytest

from impl.producer import ConfigError, IdempotentProducerCore, ProducerConfig


def test_defaults_are_kafkas():
    config = ProducerConfig.of()
    assert (config.acks, config.enable_idempotence, config.retries) == (-1, True, 2**31 - 1)
    assert (config.max_in_flight_requests_per_connection, config.linger_ms) == (5, 5)
    assert (config.batch_size, config.max_request_size) == (16_384, 1_048_576)
    assert (config.buffer_memory, config.client_id) == (33_554_432, "producer-1")
    assert (config.request_timeout_ms, config.delivery_timeout_ms) == (30_000, 120_000)
    assert config.notes == ()


@pytest.mark.parametrize(("given", "meant"), [("all", -1), ("-1", -1), (-1, -1), ("1", 1), (0, 0)])
def test_acks_has_four_spellings(given, meant):
    assert ProducerConfig.of(acks=given).acks == meant


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"acks": "most"}, "acks"),
        ({"acks": 2}, "acks"),
        ({"acks": True}, "acks"),
        ({"linger": 5}, "linger"),
        ({"retries": -1}, "retries"),
        ({"retries": 2**31}, "retries"),
        ({"retries": "3"}, "retries"),
        ({"batch_size": True}, "batch_size"),
        ({"max_in_flight_requests_per_connection": 0}, "max_in_flight_requests_per_connection"),
        ({"enable_idempotence": "yes"}, "enable_idempotence"),
        ({"client_id": 3}, "client_id"),
        ({"transactional_id": ""}, "transactional_id"),
    ],
)
def test_a_value_out_of_its_range_names_the_setting(settings, setting):
    with pytest.raises(ConfigError) as refused:
        ProducerConfig.of(**settings)
    assert refused.value.setting == setting


@pytest.mark.parametrize("broken", [{"retries": 0}, {"acks": "1"}, {"acks": "0"}])
def test_a_broken_demand_switches_default_idempotence_off(broken):
    config = ProducerConfig.of(**broken)
    assert not config.enable_idempotence
    assert len(config.notes) == 1


@pytest.mark.parametrize("broken", [{"retries": 0}, {"acks": "1"}])
def test_a_broken_demand_is_an_error_when_idempotence_was_asked_for(broken):
    with pytest.raises(ConfigError):
        ProducerConfig.of(enable_idempotence=True, **broken)


@pytest.mark.parametrize("more", [{}, {"acks": "1"}, {"enable_idempotence": True}])
def test_more_than_five_in_flight_is_always_an_error(more):
    with pytest.raises(ConfigError) as refused:
        ProducerConfig.of(max_in_flight_requests_per_connection=6, **more)
    assert refused.value.setting == "max_in_flight_requests_per_connection"


def test_without_idempotence_anything_goes():
    config = ProducerConfig.of(
        enable_idempotence=False, max_in_flight_requests_per_connection=6, acks=1, retries=0
    )
    assert not config.enable_idempotence
    assert config.notes == ()


def test_transactional_id_needs_idempotence_even_when_it_is_none():
    with pytest.raises(ConfigError, match="needs idempotence"):
        ProducerConfig.of(acks=1, transactional_id=None)
    config = ProducerConfig.of(transactional_id="tid")
    assert config.client_id == "producer-tid"


def test_delivery_timeout_is_raised_unless_it_was_given():
    config = ProducerConfig.of(request_timeout_ms=130_000)
    assert config.delivery_timeout_ms == 130_005
    assert "raised" in config.notes[0]
    with pytest.raises(ConfigError, match="at least"):
        ProducerConfig.of(delivery_timeout_ms=30_004)
    assert ProducerConfig.of(delivery_timeout_ms=30_005).notes == ()


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({"acks": 1}, {}),
        ({"transactional_id": "tid"}, {}),
        ({}, {"produce_version": 2}),
        ({}, {"produce_version": 13}),
        ({}, {"init_producer_id_version": 6}),
    ],
)
def test_the_core_refuses_what_it_does_not_do(settings, versions):
    with pytest.raises(ConfigError):
        IdempotentProducerCore(ProducerConfig.of(**settings), **versions)
