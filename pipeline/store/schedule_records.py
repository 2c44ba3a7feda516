"""What the database says about schedules, their runs and notices: states and frozen records. Imports no database."""

from dataclasses import dataclass
from enum import StrEnum


class Overlap(StrEnum):
    """What becomes of a run while an earlier one of its schedule is not over."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"  #: of the earlier one


class RunState(StrEnum):
    """Due, then begun by the process that submits it, then running in a fleet, then over in one of four ways."""

    DUE = "due"
    BEGUN = "begun"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Event(StrEnum):
    """What a notice tells of: how a job, or a run of a schedule that has none, ended."""

    DONE = "done"
    FAILED = "failed"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class NoticeState(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A job that is submitted again and again. Times are seconds since the epoch."""

    id: str
    name: str
    cron: str
    zone: str
    spec_json: str  #: the job as its file was read, with all that the file refers to, and without a name
    job_name: str  #: the pattern that its jobs are named by
    job_file: str
    grace_s: float  #: a run is not started later than this after its time
    overlap: Overlap
    incremental: bool  #: answers of its earlier runs are taken over
    kept_at: float  #: when spec_json was read
    next_at: float
    paused_at: float | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One time of a schedule, and what came of it."""

    id: str
    schedule_id: str
    scheduled_for: float
    state: RunState
    job_name: str
    job_id: str | None = None  #: None until it is submitted, and where it never was
    note: str | None = None  #: why it was skipped, why it failed, or what is to be known of it
    fence: int = 0
    attempts: int = 0
    lease_until: float | None = None  #: of one that is due: not to be begun before
    finished_at: float | None = None  #: of one whose place a later run took: once its job is cancelled
    difference: str | None = None  #: JSON of a Difference, once its job is done


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The right to submit a run, for as long as nobody holds a newer `fence`."""

    run_id: str
    fence: int
    attempts: int  #: 1 for the first try


@dataclass(frozen=True, slots=True)
class Difference:
    """A job beside the run before it, in rows: each of the job's is one of the first four."""

    new: int  #: their keys were not there
    reused: int  #: their answers are those of earlier runs
    changed: int  #: another content of the same key, or asked for in another way
    again: int  #: errors then, and tried again
    gone: int  #: keys of the earlier run that are not there any more


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """Somebody is to be told of an end."""

    id: str
    event: Event
    occurred_at: float
    job_id: str | None
    run_id: str | None
    state: NoticeState = NoticeState.PENDING
    lease_until: float | None = None
    error: str | None = None  #: why it could not be sent; of one that is pending, the last try
