"""What the ledger says about a job: the states of its parts, and frozen records of them. Imports no database."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class JobState(StrEnum):
    """Cutting, then running, then done; cancelled from either of the first two, and back."""

    CUTTING = "cutting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class ShardState(StrEnum):
    PENDING = "pending"
    ENCODED = "encoded"


class BatchState(StrEnum):
    """Only a leased batch can become done, and only for the holder of its newest fence."""

    PENDING = "pending"
    ENQUEUED = "enqueued"
    LEASED = "leased"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as the database keeps it. Times are seconds since the epoch, here as everywhere in the store."""

    id: str
    name: str
    spec_json: str
    fingerprint: str
    model_digest: str
    input_digest: str
    state: JobState
    n_rows: int | None  #: None until the input is cut to its end
    submitted_at: float
    finished_at: float | None
    error: str | None  #: why the last run stopped


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """Rows `row_from` (included) to `row_to` (excluded) of a job, in an immutable Parquet file."""

    job_id: str
    shard_no: int
    path: Path
    row_from: int
    row_to: int
    state: ShardState

    @property
    def rows(self) -> range:
        return range(self.row_from, self.row_to)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to answer a batch, for as long as nobody holds a newer `fence`."""

    job_id: str
    batch_no: int
    shard_no: int
    row_ids: tuple[int, ...]
    fence: int
    attempts: int  #: 1 for the first try


@dataclass(frozen=True, slots=True)
class Progress:
    """A job in figures, from the sums that its batches and shards carry."""

    total: int | None  #: None until the input is cut to its end
    ok: int = 0
    truncated: int = 0
    error: int = 0
    cancelled: int = 0
    batches: dict[BatchState, int] = field(default_factory=dict)  #: every state, also where it counts 0
    computed_tokens: int = 0
    reused_tokens: int = 0
    output_tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  #: by stage: encode, prefix, prefill, ...
    started_at: float | None = None  #: when the first batch was first taken up
    finished_at: float | None = None  #: when the latest answered batch was closed

    @property
    def recorded(self) -> int:
        """Rows that a run has ended, with an answer or with an error."""
        return self.ok + self.truncated + self.error

    @property
    def finished(self) -> int:
        """Rows that have their one result."""
        return self.ok + self.truncated + self.error + self.cancelled
