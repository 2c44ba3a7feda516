"""Where a process's metrics are read: an HTTP server of its own, on all addresses, at /metrics."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from pipeline.errors import JobError


def new_registry() -> CollectorRegistry:
    """With what is told of any process: its memory, its time, its files."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


@contextmanager
def served(registry: CollectorRegistry, port: int | None) -> Iterator[None]:
    """Until the block ends; nothing where there is no port. Raises JobError for one that is taken."""
    if port is None:
        yield
        return
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        raise JobError(
            f"Metrics cannot be served on port {port}: {error.strerror}. Give another one (--metrics-port)."
        ) from error
    # A process of a pool that outlives this one for a moment must not keep the port.
    os.register_at_fork(after_in_child=server.socket.close)
    try:
        yield
    finally:
        with suppress(OSError):
            server.shutdown()
            server.server_close()
        thread.join()
