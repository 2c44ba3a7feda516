"""Where a job stands, as `jobs` and `status` tell it: its state as people see it, its figures, and rates from them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from pipeline.settings import Settings
from pipeline.store.database import Database
from pipeline.store.queries import find_job, list_jobs, progress
from pipeline.store.records import JobRecord, JobState, Progress
from workers.process import Members


class State(StrEnum):
    """A job's state in the ledger, less the claim that somebody is at work where nobody is."""

    CUTTING = "cutting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Standing:
    job: JobRecord
    figures: Progress
    state: State

    @property
    def recorded(self) -> int:
        """Rows that a run has ended, with an answer or with an error."""
        return self.figures.recorded

    @property
    def active_s(self) -> float | None:
        """From the first batch taken up to the latest one answered."""
        started, finished = self.figures.started_at, self.figures.finished_at
        return None if started is None or finished is None else finished - started

    @property
    def rows_per_s(self) -> float | None:
        """Answers only: a row that failed before it reached the model took none of that time."""
        return (self.figures.ok + self.figures.truncated) / self.active_s if self.active_s else None

    @property
    def reuse_share(self) -> float | None:
        """Of all prompt tokens, those that were read from the prefix store."""
        prompt = self.figures.computed_tokens + self.figures.reused_tokens
        return self.figures.reused_tokens / prompt if prompt else None

    def as_json(self) -> dict[str, object]:
        """Times are ISO 8601 in UTC."""
        job, figures = self.job, self.figures
        return {
            "job": job.name,
            "id": job.id,
            "state": self.state,
            "rows": {
                "total": figures.total,
                "ok": figures.ok,
                "truncated": figures.truncated,
                "error": figures.error,
                "cancelled": figures.cancelled,
            },
            "submitted_at": _iso(job.submitted_at),
            "finished_at": _iso(job.finished_at),
            "active_seconds": self.active_s,
            "rows_per_second": self.rows_per_s,
            "prompt_tokens": {"computed": figures.computed_tokens, "reused": figures.reused_tokens},
            "output_tokens": figures.output_tokens,
            "seconds": figures.seconds,
            "error": job.error,
        }


def standing(database: Database, settings: Settings, ref: str) -> Standing:
    """Raises NotFoundError."""
    return _standing(database, find_job(database, ref), Members(settings.home).jobs_at_work())


def all_standings(database: Database, settings: Settings) -> list[Standing]:
    """The newest first."""
    at_work = Members(settings.home).jobs_at_work()
    return [_standing(database, job, at_work) for job in list_jobs(database)]


def _standing(database: Database, job: JobRecord, at_work: set[str]) -> Standing:
    alive = job.state in (JobState.DONE, JobState.CANCELLED) or job.id in at_work
    return Standing(job, progress(database, job.id), State(job.state) if alive else State.INTERRUPTED)


def _iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
