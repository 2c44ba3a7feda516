"""Stage 7: what of a job was purged, or taken back, is missed with a sentence."""

from datetime import UTC, datetime

from sqlalchemy import Engine

from pipeline.errors import RefusedError, TryAgain
from pipeline.store.lookup import read_job
from pipeline.store.records import JobRecord, JobState


def require_shards(job: JobRecord) -> None:
    """Raises RefusedError where the input that the job was cut into is gone."""
    if job.shards_purged_at is not None:
        raise RefusedError(
            f"The input of {job.name} was purged on {_day(job.shards_purged_at)}. No row of it can be answered again, "
            f"or shown beside its answer; `pipeline results {job.name} --columns key,status` shows the answers alone."
        )


def require_results(job: JobRecord) -> None:
    """Raises RefusedError where the job's answers are gone."""
    if job.results_purged_at is not None:
        raise RefusedError(f"The answers of {job.name} were purged on {_day(job.results_purged_at)}.")


def require_unchanged(engine: Engine, job: JobRecord) -> None:
    """For whoever has read the job's answers in several transactions, between which some may have gone.

    Raises RefusedError where they were purged since `job` was looked up, TryAgain where an ended job goes on.
    """
    now = read_job(engine, job.id)
    require_results(now)
    ended = job.state in (JobState.DONE, JobState.CANCELLED)
    if ended and (now.state, now.finished_at) != (job.state, job.finished_at):
        raise TryAgain(
            f"{job.name} was {job.state} and went on (`retry`, `resume`) while its answers were read, so some are "
            "missing. Give the same command again when it is done."
        )


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
