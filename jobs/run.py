"""Carries out a job in this process, once it is cut, and tells how it went. For submit, resume and retry."""

from contextlib import suppress
from functools import partial

from jobs import exit_codes
from jobs.conclusion import conclude
from jobs.manner import Manner
from jobs.notices import send_notices
from jobs.progress import shown, waiting
from jobs.session import Session
from jobs.tables import unit
from jobs.view import Failures, Seen
from pipeline.answering import Witness
from pipeline.errors import PipelineError
from pipeline.journey import Journey
from pipeline.means import Means
from pipeline.spec import JobSpec
from pipeline.store.queries import find_job, list_shards
from pipeline.store.records import JobRecord
from workers.keys import keys_of
from workers.local import LocalRunner, Outcome
from workers.process import Members, StopRequest
from workers.tracing.traces import traced


def carry_out(session: Session, job: JobRecord, spec: JobSpec, means: Means, manner: Manner) -> int:
    """The exit status. A JobError or TryAgain is noted with the job before it is raised."""
    try:
        return _carried_out(session, job, spec, means, manner)
    finally:
        send_notices(session.database, job.id)


def _carried_out(session: Session, job: JobRecord, spec: JobSpec, means: Means, manner: Manner) -> int:
    session.ledger.fail_note(job.id, None)
    stop = StopRequest(lambda: session.notes.print("Stopping after this batch. Ctrl-C again stops at once."))
    try:
        outcome = _run(session, job, spec, means, stop)
    except KeyboardInterrupt:
        outcome = Outcome.STOPPED
    except PipelineError as error:
        with suppress(PipelineError):
            session.ledger.fail_note(job.id, str(error))
        raise
    if outcome is not Outcome.DONE:
        return _stopped(session, job, outcome, manner)
    if stop.asked:
        session.notes.print(f"All {unit(job)}s were recorded by then, so the job is done.")
    status = conclude(session, job, spec, as_json=manner.as_json)
    # Done all the same, but the jobs behind it must not begin.
    return exit_codes.STOPPED if stop.asked and not manner.alone else status


def _run(session: Session, job: JobRecord, spec: JobSpec, means: Means, stop: StopRequest) -> Outcome:
    warn = partial(session.notes.print, soft_wrap=True, markup=False)
    with traced(session.database, session.settings, warn) as traces:
        return _run_traced(session, job, spec, means, stop, traces)


def _run_traced(
    session: Session, job: JobRecord, spec: JobSpec, means: Means, stop: StopRequest, traces: Witness
) -> Outcome:
    with waiting(session.notes, "Preparing the prompts ..."):
        shards = list_shards(session.database, job.id)
        journey = Journey(job, spec, means, session.ledger, shards, session.settings, traces)
    runner = LocalRunner(
        job.id,
        journey,
        session.ledger,
        Members(session.settings.home),
        session.settings.lease_s,
        partial(keys_of, session.database),
    )
    errors = Failures(session.database, job.id).by_kind
    with shown(session.notes, lambda: Seen(job.name, session.figures(job), unit=unit(job)), errors) as on_change:
        return runner.run(stop, lambda: find_job(session.database, job.id).state, on_change)


def _stopped(session: Session, job: JobRecord, outcome: Outcome, manner: Manner) -> int:
    figures = session.figures(job)
    what = "The job was cancelled: " if outcome is Outcome.CANCELLED else ""
    recorded = f"{figures.recorded} of {figures.total} {unit(job)}s recorded"
    session.notes.print(f"{what}{recorded}{manner.way_on(job.name)}", soft_wrap=True)
    return exit_codes.STOPPED
