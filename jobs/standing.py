"""Where a job stands, as `jobs` and `status` tell it: its state as people see it, its figures, and rates from them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from jobs.diagnosis import Situation, hold_up
from jobs.fleet import Fleet
from pipeline.settings import Settings
from pipeline.sharing import share_reused
from pipeline.store.database import Database
from pipeline.store.differences import difference_of
from pipeline.store.notices import Notices
from pipeline.store.open_work import OpenWork, work_of
from pipeline.store.queries import find_job, list_jobs, newest_jobs, progress
from pipeline.store.records import JobRecord, JobState, Progress
from pipeline.store.schedule_records import Difference
from pipeline.store.schedules import Schedules
from workers.process import Members


class State(StrEnum):
    """A job's state in the ledger, less the claim that somebody is at work where nobody is."""

    CUTTING = "cutting"
    RUNNING = "running"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class InFleet:
    """What the fleet does for one job."""

    fleet: Fleet
    work: OpenWork  #: what of the job waits or is under way
    held_up: str | None  #: what holds it up, and what to do
    names: Mapping[str, str]  #: of all jobs, by id


@dataclass(frozen=True, slots=True)
class Standing:
    job: JobRecord
    figures: Progress
    state: State
    in_fleet: InFleet | None = None  #: of a job that a fleet is at
    difference: Difference | None = None  #: of a job of an incremental schedule, to the run before it
    unsent: str | None = None  #: why the notice of its end could not be sent

    @property
    def recorded(self) -> int:
        """Rows that a run has ended, with an answer or with an error."""
        return self.figures.recorded

    @property
    def n_rows(self) -> int | None:
        """Of the input, whose figures count each question of a row; None until it is cut to its end."""
        return None if self.figures.total is None else self.figures.total // self.job.n_questions

    @property
    def active_s(self) -> float | None:
        """From the first batch taken up to the latest one answered."""
        started, finished = self.figures.started_at, self.figures.finished_at
        return None if started is None or finished is None else finished - started

    @property
    def rows_per_s(self) -> float | None:
        """Answers only: a row that failed before it reached the model, or was copied, took none of that time."""
        answered = self.figures.ok + self.figures.truncated - self.figures.copied
        return answered / self.job.n_questions / self.active_s if self.active_s else None

    @property
    def reuse_share(self) -> float | None:
        """Of all prompt tokens, those that were read from the prefix store."""
        prompt = self.figures.computed_tokens + self.figures.reused_tokens
        return self.figures.reused_tokens / prompt if prompt else None

    @property
    def planned_reuse(self) -> float | None:
        """The same of all rows that are encoded, were what rows of a shard share computed once; None where an earlier
        version encoded them."""
        figures = self.figures
        return share_reused(figures.prompt_tokens, figures.planned_tokens) if figures.prompt_tokens else None

    def as_json(self) -> dict[str, object]:
        """Times are ISO 8601 in UTC."""
        job, figures = self.job, self.figures
        counts = {
            "total": figures.total,
            "ok": figures.ok,
            "truncated": figures.truncated,
            "error": figures.error,
            "cancelled": figures.cancelled,
            "copied": figures.copied,
        }
        asked = {"questions": job.questions, "rows": {"total": self.n_rows}, "answers": counts}
        return {
            "job": job.name,
            "id": job.id,
            "state": self.state,
            **(asked if job.questions else {"rows": counts}),
            "submitted_at": iso(job.submitted_at),
            "finished_at": iso(job.finished_at),
            "active_seconds": self.active_s,
            "rows_per_second": self.rows_per_s,
            "prompt_tokens": {
                "computed": figures.computed_tokens,
                "reused": figures.reused_tokens,
                "reuse_achieved": self.reuse_share,
                "reuse_predicted": job.predicted_reuse,
            },
            "output_tokens": figures.output_tokens,
            "texts": {"cut": figures.cut, "neutralised": figures.neutralised},
            "seconds": figures.seconds,
            "purged": {"shards": iso(job.shards_purged_at), "results": iso(job.results_purged_at)},
            "error": job.error,
            "difference": None if self.difference is None else asdict(self.difference),
            "notice_error": self.unsent,
        }


def standing(database: Database, settings: Settings, ref: str) -> Standing:
    """Raises NotFoundError."""
    job, fleet = find_job(database, ref), Fleet.seen(database)
    found = Standing(job, progress(database, job.id), _state(job, Members(settings.home).jobs_at_work(), fleet))
    run, _ = Schedules(database).of(job_id=job.id)
    difference = None if run is None else difference_of(run)
    found = replace(found, difference=difference, unsent=Notices(database).unsent(job_id=job.id))
    open_in_fleet = job.fleet and job.state in (JobState.CUTTING, JobState.RUNNING)
    return replace(found, in_fleet=_in_fleet(database, found, fleet)) if open_in_fleet else found


def all_standings(database: Database, settings: Settings, limit: int | None = None) -> list[Standing]:
    """The newest first, so many at most, without what the fleet does for each."""
    at_work, fleet = Members(settings.home).jobs_at_work(), Fleet.seen(database)
    return [Standing(job, figures, _state(job, at_work, fleet)) for job, figures in newest_jobs(database, limit)]


def iso(moment: float | None) -> str | None:
    """Seconds since the epoch as a person's date, in UTC."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _state(job: JobRecord, at_work: set[str], fleet: Fleet) -> State:
    if job.state in (JobState.DONE, JobState.CANCELLED):
        return State(job.state)
    if job.paused_at is not None:
        return State.PAUSED
    if job.fleet and job.state is JobState.CUTTING:
        alive = fleet.producer_of(job.id) is not None
    else:
        alive = job.fleet or job.id in at_work
    return State(job.state) if alive else State.INTERRUPTED


def _in_fleet(database: Database, found: Standing, fleet: Fleet) -> InFleet:
    job = found.job
    work = work_of(database, job.id, found.figures)
    jobs = {other.id: other for other in list_jobs(database)}
    moved_at = max(job.submitted_at, found.figures.finished_at or 0.0)
    held_up = hold_up(Situation(job, work, moved_at, fleet, jobs))
    return InFleet(fleet, work, held_up, {job_id: other.name for job_id, other in jobs.items()})
