"""`make chaos`: job after job on both databases, while at random moments random things break. No part of the suite.

CHAOS_SECONDS says how long, and CHAOS_SEED repeats a run's choices, as far as the moments allow.
"""

import os
import random
import time

import pytest

from pipeline.errors import TryAgain
from pipeline.store.records import JobState
from tests.fleet.disturbances import DISTURBANCES

#: To one job; then it is left in peace, and must end.
_MOST = 12


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_chaos(request, database, rows, calm, capsys):
    seconds = float(os.environ.get("CHAOS_SECONDS", "600")) / 2
    seed = int(os.environ.get("CHAOS_SEED", str(time.time_ns() % 100_000)))
    fleet, chance = request.getfixturevalue(f"{database}_fleet"), random.Random(seed)
    told(capsys, f"\n{database}: {seconds:.0f} s with CHAOS_SEED={seed}")
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        number += 1
        name, done = f"chaos-{number}", []
        fleet.submit(rows, name)
        while len(done) < _MOST and not is_done(fleet, name):
            time.sleep(chance.uniform(0, 1))
            disturb = chance.choice(DISTURBANCES[database])
            done.append(disturb.__name__)
            disturb(fleet, chance)
        fleet.until(lambda name=name: has_ended(fleet, name), 240)
        if fleet.seen.job(name).paused_at is not None:
            # Three deaths of whoever encoded one shard, which a person would look at.
            done.append(f"paused: {fleet.seen.job(name).error}")
            assert fleet.run("resume", name).exit_code == 0
            fleet.until_done(name, 240)
        fleet.require_whole(name, calm)
        told(capsys, f"{name} is whole, with {fleet.seen.crashes(name)} crashes, after: {', '.join(done)}")


def has_ended(fleet, name) -> bool:
    """Done, or paused."""
    fleet.man()
    job = fleet.seen.job(name)
    return job.state is JobState.DONE or job.paused_at is not None


def is_done(fleet, name) -> bool:
    try:
        return fleet.seen.job(name).state is JobState.DONE
    except TryAgain:
        return False


def told(capsys, line: str) -> None:
    with capsys.disabled():
        print(line, flush=True)
