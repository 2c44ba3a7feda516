"""How many batches the broker may hold at once: enough that no worker waits for the dispatcher, and no more."""

#: For each worker, at first: one that runs, one that waits beside it, and two in the queue; and at most.
_EACH, _MOST_EACH = 4, 64
#: Share of the broker's memory that messages may fill.
_MEMORY_SHARE = 0.25
#: Bytes of a message before any was sent.
_USUAL_BYTES = 64 << 10
#: What is left of it at each look where it was not needed.
_SHRINK = 0.9


class Credit:
    """Doubles where workers emptied the queue between two looks at it, and shrinks again where they do not.

    What is in the queue is answered in its order, so a long one keeps jobs of a higher priority waiting.
    """

    def __init__(self) -> None:
        self._high = 0.0
        self._enqueued = 0  #: after the latest look, with what it allowed
        self._message_bytes = float(_USUAL_BYTES)

    def sent(self, n_bytes: int) -> None:
        """The size of a message, as the broker keeps it."""
        self._message_bytes += (n_bytes - self._message_bytes) / 16

    def left(self, *, workers: int, pending: int, enqueued: int, leased: int, maximum: int | None) -> int:
        """Batches that may be enqueued now. `maximum` is the broker's memory in bytes, where it has a limit."""
        workers = max(workers, 1)
        floor = _EACH * workers
        ran_dry = pending > 0 and enqueued < workers <= self._enqueued
        needed = ran_dry or (pending > 0 and enqueued <= self._high / 2)
        self._high = max(floor, 2 * self._high if ran_dry else self._high * (1 if needed else _SHRINK))
        self._high = min(self._high, _MOST_EACH * workers)
        if maximum:
            self._high = min(self._high, max(floor, _MEMORY_SHARE * maximum / self._message_bytes))
        allowed = max(0, int(self._high) - enqueued - leased)
        self._enqueued = enqueued + min(allowed, pending)
        return allowed
