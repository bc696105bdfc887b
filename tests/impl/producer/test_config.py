"""The rules of a producer's settings, with and without the user's own words."""

import pytest

from impl.producer import ConfigError, IdempotentProducerCore, ProducerConfig
from impl.producer.config import SETTINGS

MAX_IN_FLIGHT = "max_in_flight_requests_per_connection"


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


NUMBERS = [(name, s.least, s.greatest) for name, s in SETTINGS.items() if s.least is not None]


@pytest.mark.parametrize(("name", "least", "greatest"), NUMBERS)
def test_every_number_has_two_ends(name, least, greatest):
    for outside in (least - 1, greatest + 1, None, 1.0, "1", True):
        with pytest.raises(ConfigError) as refused:
            ProducerConfig.of(**{name: outside}, enable_idempotence=False)
        assert refused.value.setting == name
    assert getattr(ProducerConfig.of(**{name: greatest}, enable_idempotence=False), name)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"enable_idempotence": True, "retries": 0}, "retries"),
        ({"enable_idempotence": True, "acks": "1"}, "acks"),
        ({"enable_idempotence": True, "acks": 0, "retries": 0}, "retries"),
        ({"max_in_flight_requests_per_connection": 6, "retries": 0}, MAX_IN_FLIGHT),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional_id"),
        ({"transactional_id": "t", "retries": 0}, "transactional_id"),
        ({"transactional_id": "t", "acks": 1}, "transactional_id"),
        ({"transactional_id": None, "enable_idempotence": False}, "transactional_id"),
        ({"delivery_timeout_ms": 100, "request_timeout_ms": 100}, "delivery_timeout_ms"),
    ],
)
def test_each_contradiction_names_the_setting_to_change(settings, setting):
    with pytest.raises(ConfigError) as refused:
        ProducerConfig.of(**settings)
    assert refused.value.setting == setting


def test_a_transactional_id_asks_for_idempotence_by_default():
    assert ProducerConfig.of(transactional_id="t").enable_idempotence
    assert ProducerConfig.of(transactional_id=None).enable_idempotence


def test_the_least_delivery_timeout_has_a_limit_itself():
    config = ProducerConfig.of(linger_ms=2**31 - 1)
    assert config.delivery_timeout_ms == 2**31 - 1


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
    assert "increased" in config.notes[0]
    with pytest.raises(ConfigError, match="at least"):
        ProducerConfig.of(delivery_timeout_ms=30_004)
    assert ProducerConfig.of(delivery_timeout_ms=30_005).notes == ()


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({"transactional_id": "tid"}, {}),
        ({}, {"produce_version": 2}),
        ({}, {"produce_version": 13}),
        ({}, {"init_producer_id_version": 6}),
    ],
)
def test_the_core_refuses_what_it_does_not_do(settings, versions):
    with pytest.raises(ConfigError):
        IdempotentProducerCore(ProducerConfig.of(**settings), **versions)
