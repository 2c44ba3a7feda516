"""Looks at a job that others answer until it has ended, for `status --watch` and `--wait`."""

import time
from collections.abc import Collection

from rich.console import Console

from jobs.progress import shown
from jobs.standing import Standing, State, standing
from jobs.tables import unit
from jobs.view import Failures, Seen
from pipeline.errors import TryAgain
from pipeline.settings import Settings
from pipeline.store.database import Database

#: Seconds between two looks.
_LOOK_S = 1.0
ENDED = frozenset({State.DONE, State.CANCELLED, State.PAUSED})


def watch(
    database: Database, settings: Settings, job_id: str, console: Console, until: Collection[State] = ENDED
) -> Standing:
    """How it stands at the end. What holds it up is said once; a database that is away for a while is waited for."""
    found, said = standing(database, settings, job_id), None
    failures = Failures(database, job_id)
    with shown(
        console, lambda: Seen(found.job.name, found.figures, found.in_fleet, unit(found.job)), failures.by_kind
    ) as on_change:
        while found.state not in until:
            now = found.in_fleet.held_up if found.in_fleet is not None else None
            try:
                on_change()
                time.sleep(_LOOK_S)
                found = standing(database, settings, job_id)
            except TryAgain as error:
                now = str(error)
            if now is not None and now != said:
                console.print(now, soft_wrap=True)
            said = now
        on_change()
    return found
