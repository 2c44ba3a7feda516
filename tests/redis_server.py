"""A Redis for the tests: one named in PIPELINE_TEST_BROKER_URL, or servers of their own, to be killed and frozen."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from workers.broker.address import parse_address
from workers.broker.server import private_server


class RedisServer:
    """A server of a test's own. Started again, it is empty, and has the same URL."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._running = directory, ExitStack()
        self.url = ""

    def start(self) -> None:
        self.url = self._running.enter_context(private_server(self._directory))
        self._pid = int(self.client().info("server")["process_id"])

    def stop(self) -> None:
        self._running.close()

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self.stop()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections and says nothing."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)

    def client(self, *, decode: bool = True) -> redis.Redis:
        return redis.Redis.from_url(parse_address(self.url).redis_url, decode_responses=decode)

    def fill(self) -> None:
        """No memory is left: whatever could need some is refused."""
        client = self.client()
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) // 2)

    def empty(self) -> None:
        self.client().config_set("maxmemory", 256 << 20)


@contextmanager
def any_broker(directory: Path) -> Iterator[str]:
    """The URL of an empty broker that only answers; PIPELINE_TEST_BROKER_URL is flushed."""
    named = os.environ.get("PIPELINE_TEST_BROKER_URL")
    if named:
        redis.Redis.from_url(parse_address(named).redis_url).flushdb()
        yield named
        return
    with private_server(directory) as url:
        yield url


def eventually(is_so, within_s: float = 60.0) -> bool:
    """Whether it became so; the time is for a very busy machine."""
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
