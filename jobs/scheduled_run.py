"""Submits the job of a run of a schedule, and records with the run what became of it."""

from datetime import datetime

import click

from jobs import exit_codes
from jobs.manner import Manner
from jobs.schedule_shown import why_anew
from jobs.session import Session
from pipeline.errors import JobError, NoRows, RefusedError, TryAgain
from pipeline.run_names import with_output_filled
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.lookup import read_job
from pipeline.store.records import JobState
from pipeline.store.schedule_records import RunClaim, RunRecord, RunState, ScheduleRecord
from pipeline.store.schedule_runs import ScheduleRuns
from pipeline.store.schedules import Schedules
from pipeline.timetable import Timetable
from workers.lease import kept

#: A run is tried so often, with a pause that begins with so many seconds and doubles: for two hours.
_MOST_ATTEMPTS, _PAUSE_S = 8, 60.0
_ENDS = {JobState.DONE: RunState.DONE, JobState.CANCELLED: RunState.CANCELLED}


def submit_run(settings: Settings, claim: RunClaim, manner: Manner) -> int:
    """The exit status: where a fleet has the job, once its input is read, otherwise once it is answered. An error is
    recorded before it is raised, and notices are left to the caller."""
    session = Session.open(settings)
    runs = ScheduleRuns(session.database)
    if not runs.renew(claim, settings.lease_s):
        raise RefusedError("This run of the schedule is over, or another process has it.")
    with kept(runs.renew, claim, settings.lease_s):
        try:
            status = _submit(session, claim, manner)
        except TryAgain as error:
            if claim.attempts >= _MOST_ATTEMPTS:
                runs.end(claim, RunState.FAILED, f"Tried {claim.attempts} times: {error}")
            else:
                runs.postpone(claim, _PAUSE_S * 2 ** (claim.attempts - 1), f"Put off for a while: {error}")
            raise
        except NoRows as none:
            runs.end(claim, RunState.SKIPPED, str(none))
            click.echo(str(none), err=True)
            return exit_codes.OK
        except JobError as error:
            runs.end(claim, RunState.FAILED, str(error))
            raise
        except KeyboardInterrupt:
            status = exit_codes.STOPPED
        _settle(session, runs, claim, status)
    return status


def _submit(session: Session, claim: RunClaim, manner: Manner) -> int:
    run, schedule = Schedules(session.database).of(run_id=claim.run_id)
    if run is None or schedule is None:
        raise JobError("The schedule has been removed.")
    if claim.attempts > _MOST_ATTEMPTS:
        raise JobError(f"Its process died {_MOST_ATTEMPTS} times. Try it where you see it: pipeline schedule run-now.")
    spec = _job_of(Schedules(session.database), schedule, run)
    if (anew := why_anew(session.settings.home, session.database, schedule, run.scheduled_for)) is not None:
        ScheduleRuns(session.database).remark(claim, anew)
        click.echo(anew, err=True)
    return _begin(session, claim, spec, manner) if run.job_id is None else _go_on(session, run.job_id, manner)


def _begin(session: Session, claim: RunClaim, spec: JobSpec, manner: Manner) -> int:
    # Both take a while to import.
    from jobs.new_job import submit_job
    from jobs.submit import checked_source, require_place

    require_place(spec.output)
    return submit_job(session.settings, spec, checked_source(session.settings, spec), manner, claim)


def _go_on(session: Session, job_id: str, manner: Manner) -> int:
    """Where a process died. What a person has cancelled or paused meanwhile stays so."""
    from jobs.continued import go_on

    job = read_job(session.database, job_id)
    if job.state is JobState.CANCELLED or job.paused_at is not None:
        return exit_codes.OK
    return go_on(session, job, manner)


def _job_of(schedules: Schedules, schedule: ScheduleRecord, run: RunRecord) -> JobSpec:
    zone = Timetable(schedule.cron, schedule.zone).zone
    at = datetime.fromtimestamp(run.scheduled_for, zone)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp()
    before = [datetime.fromtimestamp(one, zone) for one in schedules.submitted(schedule, midnight, run.scheduled_for)]
    spec = with_output_filled(JobSpec.model_validate_json(schedule.spec_json), schedule.name, at, before)
    return spec.model_copy(update={"name": run.job_name})


def _settle(session: Session, runs: ScheduleRuns, claim: RunClaim, status: int) -> None:
    run, _ = Schedules(session.database).of(run_id=claim.run_id)
    job = None if run is None or run.job_id is None else read_job(session.database, run.job_id)
    if job is not None and job.state in _ENDS:
        runs.end(claim, _ENDS[job.state])
    elif job is not None and job.fleet:
        runs.hand_over(claim)
    elif status == exit_codes.STOPPED:
        runs.stop(claim)
    else:
        runs.end(claim, RunState.FAILED, f"It ended with exit status {status}.")
