import socket
from urllib.request import urlopen

import pytest
from prometheus_client import Counter

from pipeline.errors import JobError
from tests.ports import free_port
from workers.metrics.endpoint import new_registry, served


def test_it_is_read_at_metrics_until_the_block_ends():
    registry, port = new_registry(), free_port()
    Counter("pipeline_things", "Things.", registry=registry).inc(3)
    with served(registry, port), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert "pipeline_things_total 3.0" in text
    assert "process_resident_memory_bytes" in text
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


def test_a_port_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        with (
            pytest.raises(JobError, match=r"on port \d+: Address already in use\. Give another"),
            served(new_registry(), taken.getsockname()[1]),
        ):
            pass


def test_without_a_port_nothing_is_served():
    with served(new_registry(), None):
        pass
