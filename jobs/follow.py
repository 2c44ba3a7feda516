"""Follows a job that others answer, until it has ended: what `--wait` asks for."""

import shlex
import time

from jobs import exit_codes
from jobs.conclusion import conclude
from jobs.progress import shown
from jobs.session import Session
from jobs.standing import Standing, State, standing
from pipeline.errors import TryAgain
from pipeline.spec import JobSpec
from pipeline.store.records import JobRecord

#: Seconds between two looks.
_LOOK_S = 1.0


def follow(session: Session, job: JobRecord, spec: JobSpec, *, as_json: bool) -> int:
    """The exit status. Ctrl-C ends the wait and not the job."""
    try:
        found = _until_it_ends(session, job)
    except KeyboardInterrupt:
        _say(session, f"The job goes on; look at it with: pipeline status {shlex.quote(job.name)}")
        return exit_codes.STOPPED
    if found.state is State.DONE:
        return conclude(session, found.job, spec, as_json=as_json)
    why = f": {found.job.error}" if found.job.error else ""
    recorded = f"{found.figures.recorded} of {found.figures.total} rows recorded"
    _say(session, f"The job is {found.state}{why}")
    _say(session, f"{recorded}; go on with: pipeline resume {shlex.quote(job.name)}")
    return exit_codes.FAILED if found.job.error else exit_codes.STOPPED


def _until_it_ends(session: Session, job: JobRecord) -> Standing:
    """Done, cancelled or paused. What holds it up is said once; a database that is away for a while is waited for."""
    said = None
    with shown(session.notes, lambda: session.figures(job)) as on_change:
        while True:
            try:
                found = standing(session.database, session.settings, job.id)
                if found.state in (State.DONE, State.CANCELLED, State.PAUSED):
                    on_change()
                    return found
                on_change()
                now = found.in_fleet.held_up if found.in_fleet is not None else None
            except TryAgain as error:
                now = str(error)
            if now is not None and now != said:
                _say(session, now)
            said = now
            time.sleep(_LOOK_S)


def _say(session: Session, text: str) -> None:
    session.notes.print(text, soft_wrap=True)
