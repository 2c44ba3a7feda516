"""Python loads this at the start of every process of a fleet: what no signal from outside can bring about in time.

A file `hold-...` in the home directory makes that work wait for as long as it lies there. A row's key may be the fate
of the process that answers it. FLEET_CLOCK_AHEAD_S sets the process's clock wrong.
"""

import os
import signal
import sys
import time
from functools import wraps
from pathlib import Path

_ROLE = next((word for word in ("submit", "tokenizer", "workers.gpu") if word in sys.orig_argv), None)
_LATE_S = 5.0


def _held(what: str) -> None:
    while Path(os.environ["PIPELINE_HOME"], f"hold-{what}").exists():
        time.sleep(0.02)


def _compute_on() -> None:
    """As long as several leases, and as jealous of the interpreter as a model can be."""
    until = time.monotonic() + _LATE_S
    while time.monotonic() < until:
        sum(range(1000))


_FATES = {
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "ends with 3": lambda: os._exit(3),
    "is late": _compute_on,
}


def _before(kind: type, name: str, hook) -> None:
    method = getattr(kind, name)

    @wraps(method)
    def hooked(*arguments):
        hook(*arguments)
        return method(*arguments)

    setattr(kind, name, hooked)


def _after_the_second_shard(ledger, job_id: str, shard_no: int, *rest) -> None:
    if shard_no == 2:
        _held("cutting")


def _fate(engine, batch, *rest) -> None:
    _held("answering")
    for prompt in batch.prompts:
        _FATES.get(prompt.key, lambda: None)()


def _last_words(finish):
    """Killed between the commit and whatever comes next."""

    @wraps(finish)
    def hooked(ledger, claim, completions, *rest):
        done = finish(ledger, claim, completions, *rest)
        if done and any(completion.key == "last words" for completion in completions):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return hooked


if ahead := float(os.environ.get("FLEET_CLOCK_AHEAD_S", "0")):
    _true = time.time
    time.time = lambda: _true() + ahead

if _ROLE == "submit":
    from pipeline.store.ledger import Ledger

    _before(Ledger, "add_shard", _after_the_second_shard)
elif _ROLE == "tokenizer":
    from pipeline.encoding import Encoding

    _before(Encoding, "shard", lambda *arguments: _held("encoding"))
elif _ROLE == "workers.gpu":
    from pipeline.inference.engine import Engine
    from pipeline.store.ledger import Ledger

    _before(Engine, "run", _fate)
    Ledger.finish = _last_words(Ledger.finish)
