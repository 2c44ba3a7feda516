"""What Celery logs, fit for a night: a broker that is away is told once a minute, and no message's content ever."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celery.worker.consumer import consumer
from kombu.transport.virtual.base import W_NO_CONSUMERS

_LOGGERS = (consumer.logger.name, "kombu.transport.redis", "kombu.transport.virtual.base")
_EVERY_S = 60.0
#: These hold the message, and so somebody's rows.
_WITH_CONTENT = (
    consumer.UNKNOWN_FORMAT,
    consumer.UNKNOWN_TASK_ERROR,
    consumer.INVALID_TASK_ERROR,
    consumer.MESSAGE_DECODE_ERROR,
)
#: Beginnings of what is logged again and again while the broker is away.
_AWAY = ("Frequent restarts detected", "Redis BRPOP got no reply")


class Quiet(logging.Filter):
    """Shortens records, and drops those that repeat that the broker is away, or that tell of nothing amiss.

    Each error of a connection comes by here, and nowhere else: `on_lost` is called with it.
    """

    def __init__(self, on_lost: Callable[[Exception], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._on_lost, self._clock, self._told_at = on_lost, clock, -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == W_NO_CONSUMERS:  # a message that came while this worker stops went back
            return False
        if record.msg in _WITH_CONTENT:
            _say(record, "A message was dropped that this version does not understand; its sender may be of another.")
            return True
        fault = _fault(record)
        if fault is None:
            return True
        if isinstance(fault, Exception):
            self._on_lost(fault)
        now = self._clock()
        if now - self._told_at < _EVERY_S:
            return False
        self._told_at = now
        _say(record, "The broker cannot be used just now, and is tried again until it can: %s", fault)
        return True


@contextmanager
def quieted(on_lost: Callable[[Exception], None]) -> Iterator[None]:
    quiet = Quiet(on_lost)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(quiet)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(quiet)


def _fault(record: logging.LogRecord) -> object | None:
    """What is wrong, where the record says that the broker is away."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    if record.msg == consumer.CONNECTION_ERROR:
        return arguments[1]
    if arguments and arguments[0] == consumer.CONNECTION_RETRY:
        return arguments[1]
    return record.getMessage() if str(record.msg).startswith(_AWAY) else None


def _say(record: logging.LogRecord, message: str, *arguments: object) -> None:
    record.msg, record.args, record.exc_info, record.exc_text = message, arguments, None, None
