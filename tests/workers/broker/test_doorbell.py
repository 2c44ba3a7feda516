import json
import socket
from contextlib import suppress

import pytest
import redis

from pipeline.errors import TryAgain
from tests.redis_server import eventually
from workers.broker.doorbell import Doorbell


@pytest.fixture
def bell(broker_url):
    return Doorbell(broker_url)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_depth_counts_what_no_worker_has_taken(bell):
    assert bell.depth() == {"tokenizer": 0, "gpu": 0}
    for batch_no in range(3):
        bell.ring_batch("night", batch_no, None)
    bell.ring_shard("night", 0)
    assert bell.depth() == {"tokenizer": 1, "gpu": 3}


@pytest.mark.parametrize("size", [0, 10, 50_000])
def test_the_size_of_a_message_is_known(server, size):
    told = Doorbell(server.url).ring_batch("0123456789abcdef", 12, bytes(range(256)) * (size // 256))
    kept = server.client().lindex("pipeline:gpu", 0)
    assert told == pytest.approx(len(kept), rel=0.15)


def test_memory_is_what_the_server_says(server):
    used, allowed = Doorbell(server.url).memory()
    assert 0 < used < allowed == 256 << 20


def test_an_epoch_lasts_until_redis_loses_all(server):
    bell, other = Doorbell(server.url), Doorbell(server.url)
    assert bell.epoch() is None
    assert bell.begin_epoch("one") == "one"
    assert other.begin_epoch("two") == "one"
    server.client().flushall()
    assert bell.epoch() is None
    assert other.begin_epoch("two") == "two"


def test_nothing_is_kept_but_what_is_told_of(bell):
    bell.ring_batch("night", 0, b"rows")
    bell.ring_shard("night", 0)
    bell.begin_epoch("one")
    assert bell.keys() == ["pipeline:epoch", "pipeline:gpu", "pipeline:tokenizer"]
    bell.purge()
    assert bell.keys() == []


def test_another_ones_keys_are_left_alone(server):
    server.client().set("mine", "value")
    bell = Doorbell(server.url)
    bell.begin_epoch("one")
    assert bell.keys() == ["pipeline:epoch"]
    bell.purge()
    assert server.client().keys() == ["mine"]


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("maxmemory-policy", "allkeys-lru", "throws whole queues away"),
        ("maxmemory", "0", "which is no limit"),
        ("maxmemory", "1mb", "% full, so nothing more is sent to it"),
    ],
)
def test_settings_that_will_hurt_are_told(server, setting, value, told):
    bell = Doorbell(server.url)
    assert bell.check() == []
    server.client().config_set(setting, value)
    (fault,) = bell.check()
    assert told in fault


def everything(bell):
    yield lambda: bell.ring_batch("night", 0, b"rows")
    yield lambda: bell.ring_shard("night", 0)
    yield bell.depth
    yield bell.memory
    yield bell.epoch
    yield lambda: bell.begin_epoch("one")
    yield bell.keys
    yield bell.purge
    yield bell.check


def test_a_broker_that_is_away_is_the_moments_fault_and_named(server):
    bell = Doorbell(server.url)
    bell.ring_shard("night", 0)
    server.stop()
    for use in everything(bell):
        with pytest.raises(TryAgain, match=rf"The broker at {server.url.replace('redis+socket', 'unix')} cannot"):
            use()
    server.start()
    for use in everything(bell):
        use()


def test_a_sender_does_not_wait_for_a_broker_that_is_away(monkeypatch):
    def sleep(seconds):
        raise AssertionError("it waited")

    monkeypatch.setattr("kombu.utils.functional.sleep", sleep)
    with pytest.raises(TryAgain):
        Doorbell(f"redis://127.0.0.1:{free_port()}").ring_shard("night", 0)


def test_no_error_tells_the_password():
    bell = Doorbell(f"redis://me:secret@127.0.0.1:{free_port()}")
    for use in everything(bell):
        with pytest.raises(TryAgain, match=r"The broker at redis://127\.0\.0\.1:\d+/0 cannot") as caught:
            use()
        assert "secret" not in str(caught.value)


def test_a_frozen_broker_is_not_waited_for(server):
    def rings() -> bool:
        """On a very busy machine, a server that is well may take longer than that too."""
        with suppress(TryAgain):
            bell.ring_shard("night", 0)
            return True
        return False

    bell = Doorbell(server.url, patience_s=0.5)
    assert eventually(rings)
    with server.frozen():
        assert not rings()
        with pytest.raises(TryAgain):
            bell.depth()
    assert eventually(rings)


def test_a_full_broker_refuses_messages_and_can_still_be_looked_at(server):
    bell = Doorbell(server.url)
    bell.ring_batch("night", 0, b"rows")
    server.fill()
    with pytest.raises(TryAgain, match="maxmemory"):
        bell.ring_batch("night", 1, b"rows")
    assert bell.depth()["gpu"] == 1
    used, allowed = bell.memory()
    assert used > allowed
    assert bell.epoch() is None


def test_a_password_is_needed_where_the_server_wants_one(server):
    port = free_port()
    client = server.client()
    client.config_set("port", port)
    client.config_set("requirepass", "s@:/cret")
    Doorbell(f"redis://:s%40%3A%2Fcret@127.0.0.1:{port}/1").ring_batch("night", 0, None)
    with redis.Redis(port=port, password="s@:/cret", db=1) as reader:
        assert json.loads(reader.lindex("pipeline:gpu", 0))["headers"]["task"] == "pipeline.answer"
    for url in (f"redis://:wrong@127.0.0.1:{port}", f"redis://127.0.0.1:{port}"):
        for use in everything(Doorbell(url)):
            with pytest.raises(TryAgain) as caught:
                use()
            assert "wrong@" not in str(caught.value)
    with suppress(redis.RedisError):
        client.config_set("requirepass", "")
