"""Whether a worker's process reaches its broker: without it no work comes, however well the process lives."""

import logging

from pipeline.store.records import WorkerState
from pipeline.store.registry import News
from workers.broker.address import parse_address

_LOG = logging.getLogger(__name__)


class Contact:
    """Written by whoever listens to the broker, read by the heartbeat's thread."""

    def __init__(self, broker_url: str) -> None:
        self._address = parse_address(broker_url)
        self._trouble: str | None = None

    def lost(self, error: Exception) -> None:
        """May be told again and again."""
        self._trouble = str(self._address.unreachable(error))

    def made(self) -> None:
        if self._trouble is not None:
            _LOG.warning("The broker can be used again.")
        self._trouble = None

    def told_in(self, news: News) -> News:
        """What the worker says of itself, which is blocked where it has nothing in hand and nothing can come."""
        if self._trouble is None:
            return news
        state = WorkerState.BLOCKED if news.get("job_id") is None else news["state"]
        return {**news, "state": state, "note": news.get("note") or self._trouble}
