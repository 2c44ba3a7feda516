"""When a lease that ran out tells of its holder: not while nobody could have renewed it."""

import math


class Vigil:
    """`trusts` is asked at each look at the ledger, with the ledger's own time.

    A holder renews its lease every third, so that between two looks that are no further apart none runs out which could
    have been kept. A wider gap, also one of the clock, is a database that was away, frozen or moved, or a dispatcher
    that was: who lives has a whole lease then to be heard of again.
    """

    def __init__(self, lease_s: float, look_s: float) -> None:
        """`look_s` is from one look to the next, where nothing keeps it."""
        self._lease_s, self._widest_s = lease_s, look_s + lease_s / 3
        self._looked_at, self._from = -math.inf, math.inf

    def trusts(self, now: float) -> bool:
        if abs(now - self._looked_at) > self._widest_s:
            self._from = now + self._lease_s
        self._looked_at = now
        return now >= self._from

    def fail(self) -> None:
        """The ledger could be looked at, and not be written to: no more could a holder."""
        self._looked_at = -math.inf
