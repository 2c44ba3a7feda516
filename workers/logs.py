"""What a fleet's process says to whoever started it: a line for each thing that went otherwise than it should.

Each line tells of the worker, job, shard and batch that it is about, as far as they are known. No text of a row is
ever in one.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

#: Seconds after which a failure is written again that is the same as the one before it.
_AGAIN_S = 60.0
_ABOUT: ContextVar[Mapping[str, str | int]] = ContextVar("about", default=MappingProxyType({}))


@contextmanager
def about(**facts: str | int) -> Iterator[None]:
    """Lines that are written within the block, by this thread or those that are started `in_context`, tell of these:
    worker, job, shard, batch."""
    before = _ABOUT.set({**_ABOUT.get(), **facts})
    try:
        yield
    finally:
        _ABOUT.reset(before)


def in_context(work: Callable[[], None]) -> Callable[[], None]:
    """For a new thread, which knows nothing of what its starter is about."""
    return partial(copy_context().run, work)


def log_to_stderr(role: str, log_format: str) -> None:
    """Warnings and worse, as text or, with `json`, as an object a line, which leaves out what is not known. What fails
    again and again in the same way, as long as a database is away, says so once a minute."""
    handler = logging.StreamHandler()
    handler.addFilter(_News())
    handler.setFormatter(_JsonLines(role) if log_format == "json" else _TextLines(role))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.captureWarnings(True)


class _News(logging.Filter):
    """All but an error that the same module told last, of the same things."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, tuple[object, float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        errors = isinstance(record.args, tuple) and any(isinstance(said, Exception) for said in record.args)
        told = (record.msg, repr(record.args), dict(_ABOUT.get())) if errors else None
        last, at = self._last.get(record.name, (None, 0.0))
        if errors and told == last and 0.0 <= record.created - at < _AGAIN_S:
            return False
        self._last[record.name] = (told, record.created)
        return True


class _TextLines(logging.Formatter):
    """With the time, who says it, and what it is about at the end."""

    def __init__(self, role: str) -> None:
        super().__init__(f"%(asctime)s {role}[%(process)d] %(levelname)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        told = ", ".join(f"{name} {value}" for name, value in _ABOUT.get().items())
        return super().formatMessage(record) + (f" ({told})" if told else "")


class _JsonLines(logging.Formatter):
    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "role": self._role,
            "process": record.process,
            **_ABOUT.get(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
