"""The dispatcher's side of the broker: rings for work that the database has ready, and looks how much still waits.

All that a fleet has in Redis; anything may vanish at any moment, and nothing is lost by it:

- `pipeline:gpu`, `pipeline:tokenizer`: lists, the messages that no worker has taken yet, newest first
- `pipeline:epoch`: a string that the dispatcher put there; where it is missing, Redis has lost all that it had
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry

from workers.broker.address import parse_address
from workers.broker.app import ANSWER, ENCODE, PREFIX, QUEUES, make_app

_EPOCH = f"{PREFIX}epoch"
_LISTS = {queue: f"{PREFIX}{queue}" for queue in QUEUES.values()}
#: Bytes of a message around its payload.
_ENVELOPE = 1 << 10
#: Share of its memory above which nothing more is sent.
_FULL = 0.5


class Doorbell:
    """Raises TryAgain wherever the broker fails, or does not answer within `patience_s`; then a message may have been
    sent nevertheless."""

    def __init__(self, broker_url: str, *, patience_s: float = 3.0) -> None:
        self._address = parse_address(broker_url)
        self._app = make_app(broker_url, silence_s=patience_s)
        self._redis = redis.Redis.from_url(
            self._address.redis_url,
            decode_responses=True,
            socket_timeout=patience_s,
            socket_connect_timeout=patience_s,
            retry=Retry(NoBackoff(), 0),
        )

    def ring_batch(self, job_id: str, batch_no: int, payload: bytes | None) -> int:
        """Bytes that the message takes in the broker, roughly."""
        self._send(ANSWER, (job_id, batch_no, payload))
        return _ENVELOPE + len(payload or b"") * 4 // 3

    def ring_shard(self, job_id: str, shard_no: int) -> None:
        self._send(ENCODE, (job_id, shard_no))

    def depth(self) -> dict[str, int]:
        """Messages that wait in each queue."""
        with self._reached():
            # Outside of a transaction, which Redis refuses when its memory is full.
            lengths = self._redis.pipeline(transaction=False)
            for key in _LISTS.values():
                lengths.llen(key)
            return dict(zip(_LISTS, lengths.execute(), strict=True))

    def memory(self) -> tuple[int, int]:
        """Bytes used and allowed; 0 allowed is no limit."""
        with self._reached():
            told: dict[str, Any] = self._redis.info("memory")
            return int(told["used_memory"]), int(told["maxmemory"])

    def epoch(self) -> str | None:
        """What was begun last; None where all that was sent before is lost."""
        with self._reached():
            return _text(self._redis.get(_EPOCH))

    def begin_epoch(self, name: str) -> str:
        """The epoch that now is: this one, or another's where it came first."""
        with self._reached():
            self._redis.set(_EPOCH, name, nx=True)
            return _text(self._redis.get(_EPOCH)) or name

    def keys(self) -> list[str]:
        """All that a fleet has there just now."""
        with self._reached():
            return sorted(str(key) for key in self._redis.scan_iter(f"{PREFIX}*"))

    def purge(self) -> None:
        """As if Redis had lost all that it had, which a dispatcher notices."""
        with self._reached():
            self._redis.delete(_EPOCH, *_LISTS.values())

    def check(self) -> list[str]:
        """Sentences about settings of the server that will hurt; none where all is well."""
        with self._reached():
            told: dict[str, Any] = self._redis.info("memory")
        policy, faults = told.get("maxmemory_policy", "noeviction"), []
        if policy != "noeviction":
            faults.append(
                f"The broker's maxmemory-policy is {policy}: when its memory is full it throws whole queues away, "
                "without a word. Set it to noeviction."
            )
        if not int(told["maxmemory"]):
            faults.append("The broker's maxmemory is 0, which is no limit. Set one, such as 256mb.")
        if full := fullness(int(told["used_memory"]), int(told["maxmemory"])):
            faults.append(full)
        return faults

    def _send(self, task: str, arguments: tuple[Any, ...]) -> None:
        with self._reached():
            # Arguments are not shown, since logs would keep them.
            self._app.send_task(
                task, arguments, queue=QUEUES[task], retry=False, ignore_result=True, argsrepr="-", kwargsrepr="-"
            )

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OperationalError, OSError) as error:
            raise self._address.unreachable(error) from error


def fullness(used: int, maximum: int) -> str | None:
    """Why nothing more is to be sent to a broker of which so many bytes are used and allowed, where that is so."""
    if not maximum or used <= _FULL * maximum:
        return None
    return (
        f"The broker's memory is {used / maximum:.0%} full, so nothing more is sent to it until its queue is "
        "shorter. A broker that serves others too should have a maxmemory that leaves room for both."
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
