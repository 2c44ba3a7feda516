"""Follows a job that others answer, until it has ended: what `--wait` asks for."""

import shlex

from jobs import exit_codes
from jobs.conclusion import conclude
from jobs.manner import Manner
from jobs.session import Session
from jobs.standing import State
from jobs.tables import unit
from jobs.watch import watch
from pipeline.spec import JobSpec
from pipeline.store.records import JobRecord


def follow(session: Session, job: JobRecord, spec: JobSpec, manner: Manner) -> int:
    """The exit status. Ctrl-C ends the wait and not the job."""
    try:
        found = watch(session.database, session.settings, job.id, session.notes)
    except KeyboardInterrupt:
        _say(session, f"The job goes on; look at it with: pipeline status {shlex.quote(job.name)}")
        return exit_codes.STOPPED
    if found.state is State.DONE:
        return conclude(session, found.job, spec, as_json=manner.as_json)
    why = f": {found.job.error}" if found.job.error else ""
    recorded = f"{found.figures.recorded} of {found.figures.total} {unit(job)}s recorded"
    _say(session, f"The job is {found.state}{why}")
    _say(session, f"{recorded}{manner.way_on(job.name)}")
    return exit_codes.FAILED if found.job.error else exit_codes.STOPPED


def _say(session: Session, text: str) -> None:
    session.notes.print(text, soft_wrap=True)
