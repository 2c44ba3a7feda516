"""Carries out a job in this process, once it is cut, and tells how it went. For submit, resume and retry."""

import shlex
from contextlib import suppress

from jobs import exit_codes
from jobs.progress import shown, waiting
from jobs.session import Session
from jobs.summary import print_summary
from pipeline.errors import PipelineError
from pipeline.journey import Journey
from pipeline.means import Means
from pipeline.spec import OUTPUT_FORMATS, JobSpec
from pipeline.store.export import export
from pipeline.store.queries import find_job, list_shards
from pipeline.store.records import JobRecord
from workers.local import LocalRunner, Outcome
from workers.process import Members, StopRequest


def carry_out(session: Session, job: JobRecord, spec: JobSpec, means: Means, *, as_json: bool) -> int:
    """The exit status. A JobError or TryAgain is noted with the job before it is raised."""
    session.ledger.fail_note(job.id, None)
    try:
        outcome = _run(session, job, spec, means)
    except KeyboardInterrupt:
        outcome = Outcome.STOPPED
    except PipelineError as error:
        with suppress(PipelineError):
            session.ledger.fail_note(job.id, str(error))
        raise
    if outcome is not Outcome.DONE:
        return _stopped(session, job, outcome)
    return report(session, job, spec, as_json=as_json)


def report(session: Session, job: JobRecord, spec: JobSpec, *, as_json: bool) -> int:
    """Writes the output file of a done job, where one is asked for, and prints its summary."""
    if spec.output is not None:
        n_rows = export(session.database, job, OUTPUT_FORMATS[spec.output.suffix.lower()], spec.output)
        session.notes.print(f"{n_rows} rows written to {spec.output}", soft_wrap=True)
    print_summary(session.settings, session.database, job, spec, as_json=as_json)
    figures = session.figures(job)
    answered = figures.ok + figures.truncated
    return exit_codes.OK if answered else exit_codes.ALL_ROWS_FAILED


def _run(session: Session, job: JobRecord, spec: JobSpec, means: Means) -> Outcome:
    stop = StopRequest(lambda: session.notes.print("Stopping after this batch. Ctrl-C again stops at once."))
    with waiting(session.notes, "Preparing the prompts ..."):
        shards = list_shards(session.database, job.id)
        journey = Journey(job, spec, means, session.ledger, shards, session.settings)
    runner = LocalRunner(job.id, journey, session.ledger, Members(session.settings.home), session.settings.lease_s)
    with shown(session.notes, lambda: session.figures(job)) as on_change:
        return runner.run(stop, lambda: find_job(session.database, job.id).state, on_change)


def _stopped(session: Session, job: JobRecord, outcome: Outcome) -> int:
    figures = session.figures(job)
    what = "The job was cancelled: " if outcome is Outcome.CANCELLED else ""
    recorded = f"{figures.recorded} of {figures.total} rows recorded"
    session.notes.print(f"{what}{recorded}; go on with: pipeline resume {shlex.quote(job.name)}", soft_wrap=True)
    return exit_codes.STOPPED
