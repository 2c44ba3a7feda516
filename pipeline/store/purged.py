"""Stage 7: what of a job was purged is missed with a sentence."""

from datetime import UTC, datetime

from pipeline.errors import RefusedError
from pipeline.store.records import JobRecord


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


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
