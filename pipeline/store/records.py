"""What the ledger says about a job: the states of its parts, and frozen records of them. Imports no database."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum


class JobState(StrEnum):
    """Cutting, then running, then done; cancelled from either of the first two, and back."""

    CUTTING = "cutting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class ShardState(StrEnum):
    """Enqueued and leased in a fleet only; whoever records a shard's batches first makes it encoded."""

    PENDING = "pending"
    ENQUEUED = "enqueued"
    LEASED = "leased"
    ENCODED = "encoded"


class BatchState(StrEnum):
    """Only a leased batch can become done, and only for the holder of its newest fence.

    One that killed its workers is split into halves, which are batches of their own, or dead where it is one row.
    """

    PENDING = "pending"
    ENQUEUED = "enqueued"
    LEASED = "leased"
    DONE = "done"
    CANCELLED = "cancelled"
    SPLIT = "split"
    DEAD = "dead"


class Role(StrEnum):
    """What a process of a fleet does. A producer is a `submit` or `resume` that cuts an input."""

    PRODUCER = "producer"
    DISPATCHER = "dispatcher"
    TOKENIZER = "tokenizer"
    GPU = "gpu"


class WorkerState(StrEnum):
    """What a process of a fleet last said of itself. A failed one has given up, and its note says why."""

    STARTING = "starting"
    IDLE = "idle"
    LOADING = "loading"
    BUSY = "busy"
    BLOCKED = "blocked"
    STOPPING = "stopping"
    FAILED = "failed"


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
    fleet: bool = False  #: answered by the workers of a fleet, rather than by one process here
    priority: int = 0  #: in a fleet, jobs of a higher one go first
    paused_at: float | None = (
        None  #: while this is set nothing of it is begun; `error` says why, where it was no person
    )
    context: int | None = None  #: tokens that the model holds, prompt and answer together
    tokenizer: str | None = None  #: where a fleet's workers find the model's tokenizer
    utc_offset_s: int | None = None  #: of the clock on the wall where it was submitted
    questions: tuple[str, ...] = ()  #: names, where each row is asked several
    sorts_rows: bool | None = None  #: into shards of rows that are alike; None until that is chosen
    shards_purged_at: float | None = None  #: since then its input is gone, and no row can be answered again
    results_purged_at: float | None = None  #: since then its answers are gone
    predicted_reuse: float | None = None  #: share of all prompt tokens, by a look at some rows before any was answered

    @property
    def n_questions(self) -> int:
        """Rows here for each row of the input (rows.Questions)."""
        return len(self.questions) or 1

    @property
    def submitted(self) -> datetime:
        """The moment of submission, as that clock showed it."""
        moment = datetime.fromtimestamp(self.submitted_at, UTC)
        return moment.astimezone(None if self.utc_offset_s is None else timezone(timedelta(seconds=self.utc_offset_s)))


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """Rows of a job in an immutable Parquet file: of all rows, in the order of the shards, those from `row_from`
    (included) to `row_to` (excluded). These are their ids too, unless rows were sorted: then the file has the ids."""

    job_id: str
    shard_no: int
    path: str  #: a local path, or the URL of a file system that all machines see
    row_from: int
    row_to: int
    state: ShardState
    tokens: str | None = None  #: where the prompts of its batches are, once it is encoded in a fleet


@dataclass(frozen=True, slots=True)
class PageRecord:
    """Whole rows of a job in the order of the input: those with the ids `row_from` to before `row_to`."""

    path: str
    row_from: int
    row_to: int

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
    owner: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ShardClaim:
    """The right to encode a shard, for as long as nobody holds a newer `fence`."""

    job_id: str
    shard_no: int
    fence: int
    attempts: int  #: 1 for the first try


@dataclass(frozen=True, slots=True)
class Bell:
    """A batch that the broker is to be told of."""

    job_id: str
    batch_no: int
    shard_no: int
    part: int | None  #: its place among the prompts that lie at `tokens`; None: they are to be encoded again
    tokens: str | None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A process of a fleet, by its latest sign of life."""

    id: str  #: new at each start
    role: Role
    host: str
    pid: int
    state: WorkerState
    started_at: float
    seen_at: float
    device: str | None = None
    model: str | None = None
    job_id: str | None = None  #: what it works on now
    batch_no: int | None = None  #: of a tokenizer, the shard
    note: str | None = None  #: a sentence for a person: what blocks it, why it failed
    batches: int = 0  #: since it started, as are the next three
    rows: int = 0
    tokens: int = 0  #: prompt tokens, reused ones too, and those of the answers
    busy_s: float = 0.0
    facts: str | None = None  #: JSON, of a dispatcher: what it last saw of the broker


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
    reused_tokens: int = 0  #: of prompts that were answered or copied, without what was computed
    output_tokens: int = 0
    copied: int = 0  #: rows that have an answer which a job, or an equal row of another shard, had before
    cut: int = 0  #: rows whose text was cut to fit
    neutralised: int = 0  #: rows whose text held special tokens of the model, which stayed plain text
    prompt_tokens: int = 0  #: of all prompts that are encoded so far
    planned_tokens: int = 0  #: of these, what had to be computed, where what rows of a shard share is computed once
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
