"""What holds a job of the fleet up, and what to do about it: one sentence, read off the records alone."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.fleet import Fleet
from jobs.tables import duration
from pipeline.store.open_work import OpenWork
from pipeline.store.records import JobRecord, JobState, Role, ShardState, WorkerRecord, WorkerState

#: As long as something moved so lately, nothing is held up.
QUIET_S = 60.0
#: Seconds after which a batch takes longer than one of a slow model on a slow machine, at least.
OVERDUE_S = 900.0


@dataclass(frozen=True, slots=True)
class Situation:
    """A job of the fleet, what of it is open, and the fleet."""

    job: JobRecord
    work: OpenWork  #: of the job
    moved_at: float  #: when the latest batch was answered, or the job submitted
    fleet: Fleet
    jobs: Mapping[str, JobRecord]  #: by id: whatever the workers may be busy with

    @property
    def shards_waiting(self) -> int:
        return self.work.to_encode.parts

    @property
    def batches_waiting(self) -> int:
        return self.work.to_answer.parts


def hold_up(now: Situation) -> str | None:
    """The first that holds; None where the job is over, or goes on. What is certain is told without a wait."""
    if now.job.state in (JobState.DONE, JobState.CANCELLED):
        return None
    certain = next(_told(now, (_paused, _no_dispatcher, _overdue)), None)
    return certain or (next(_told(now, _CAUSES), None) if _is_quiet(now) else None)


def _told(now: Situation, causes: Sequence[Callable[[Situation], str | None]]) -> Iterator[str]:
    return (sentence for cause in causes if (sentence := cause(now)) is not None)


def _is_quiet(now: Situation) -> bool:
    """A shard that is being encoded and a batch that is being answered move it, however long they take; not one that is
    tried in vain."""
    encodes = now.fleet.alive(Role.TOKENIZER)
    in_vain = encodes and all(worker.state is WorkerState.BLOCKED for worker in encodes)
    if now.fleet.now - now.moved_at < QUIET_S or (now.work.shards[ShardState.LEASED].parts and not in_vain):
        return False
    return not any(
        worker.job_id == now.job.id and worker.state is WorkerState.BUSY for worker in now.fleet.alive(Role.GPU)
    )


def _paused(now: Situation) -> str | None:
    if now.job.paused_at is None:
        return None
    why = f", because of this: {now.job.error}" if now.job.error else " by `pipeline pause`."
    return f"It was paused{why} `pipeline resume {shlex.quote(now.job.name)}` goes on with it."


def _no_dispatcher(now: Situation) -> str | None:
    if now.fleet.dispatcher is not None:
        return None
    last = now.fleet.last_dispatcher
    if last is not None and now.fleet.lingers(last):
        return (
            f"The dispatcher on {last.host} (process {last.pid}) fell silent {duration(now.fleet.silent_s(last))} ago, "
            "although its process is there, so nobody hands its work out. Look at what it says: the database may take "
            "no changes, as where its disk is full. If it says nothing, it stands still: end it, and start another."
        )
    died = f"; the last one, on {last.host}, fell silent {duration(now.fleet.silent_s(last))} ago" if last else ""
    return (
        f"No dispatcher lives on this database, so nobody hands its work out{died}. Start one: `pipeline dispatcher`, "
        f"or `pipeline up` for a whole fleet on this machine. `pipeline resume {shlex.quote(now.job.name)} --here` "
        "answers it without a fleet."
    )


def _overdue(now: Situation) -> str | None:
    """A device that hangs keeps its batch, since its process lives and renews the lease."""
    for worker in now.fleet.alive(Role.GPU):
        begun_at = now.work.begun_at.get(-1 if worker.batch_no is None else worker.batch_no)
        if worker.job_id == now.job.id and begun_at is not None and now.fleet.now - begun_at > OVERDUE_S:
            minutes = (now.fleet.now - begun_at) / 60
            return (
                f"The gpu worker on {worker.host} (process {worker.pid}, {worker.device}) has been at batch "
                f"{worker.batch_no} for {minutes:.0f} minutes. If its device stands still, kill that process: "
                "another one takes its place, and the batch."
            )
    return None


def _dispatcher_is_blocked(now: Situation) -> str | None:
    return now.fleet.dispatcher.note if now.fleet.dispatcher is not None else None


def _no_tokenizer(now: Situation) -> str | None:
    return _nobody(now, Role.TOKENIZER, now.shards_waiting, "Its rows wait to be encoded")


def _no_gpu(now: Situation) -> str | None:
    return _nobody(now, Role.GPU, now.batches_waiting, "Its batches wait to be answered")


def _nobody(now: Situation, role: Role, waiting: int, what: str) -> str | None:
    if not waiting or now.fleet.alive(role) or now.fleet.failed(role):
        return None
    return f"{what}, and no {role} worker lives. Start one: `pipeline worker {role}`."


def _tokenizers_failed(now: Situation) -> str | None:
    return _all_failed(now, Role.TOKENIZER, now.shards_waiting)


def _gpus_failed(now: Situation) -> str | None:
    return _all_failed(now, Role.GPU, now.batches_waiting)


def _all_failed(now: Situation, role: Role, waiting: int) -> str | None:
    failed = now.fleet.failed(role)
    if not waiting or not failed or now.fleet.alive(role):
        return None
    newest = max(failed, key=lambda worker: worker.seen_at)
    return f"All {role} workers have given up, the last one on {newest.host}: {newest.note or 'it did not say why.'}"


def _all_blocked(now: Situation) -> str | None:
    """Alive, and each of them knows why it does nothing: its broker is away, its disk is full."""
    for role, _ in _awaited(now):
        alive = now.fleet.alive(role)
        if alive and all(worker.state is WorkerState.BLOCKED for worker in alive):
            newest = max(alive, key=lambda worker: worker.seen_at)
            return f"No {role} worker can go on, the last one on {newest.host} because of this: {newest.note}"
    return None


def _loading(now: Situation) -> str | None:
    loading = [worker for worker in now.fleet.alive(Role.GPU) if worker.state in _NOT_READY]
    if not now.batches_waiting or not loading or len(loading) < len(now.fleet.alive(Role.GPU)):
        return None
    models = sorted({worker.model for worker in loading if worker.model})
    return f"The gpu workers are loading {', '.join(models) or 'the model'}; it goes on when they are ready."


def _busy_elsewhere(now: Situation) -> str | None:
    role = Role.GPU if now.batches_waiting else Role.TOKENIZER
    others = {job.id: job for worker in now.fleet.alive(role) if (job := _job_of(worker, now)) is not None}
    before = sorted(others.values(), key=lambda job: (-job.priority, job.submitted_at))
    if not before:
        return None
    names = ", ".join(f"{job.name} (priority {job.priority})" for job in before)
    return f"The {role} workers are busy with {names}; this one's priority is {now.job.priority}."


def _job_of(worker: WorkerRecord, now: Situation) -> JobRecord | None:
    """Of no lower priority, and another than the one that is looked at."""
    job = now.jobs.get(worker.job_id or "")
    is_before = job is not None and job.id != now.job.id and job.priority >= now.job.priority
    return job if is_before else None


def _nobody_takes(now: Situation) -> str | None:
    """Workers that hear another broker than the dispatcher rings are well, and so is it."""
    for role, is_free in _awaited(now):
        alive, dispatcher = now.fleet.alive(role), now.fleet.dispatcher
        queued = (now.fleet.queued or {}).get(role, 0)
        if alive and is_free and queued and dispatcher is not None:
            hosts = ", ".join(sorted({worker.host for worker in alive}))
            wait = "1 message waits" if queued == 1 else f"{queued:,} messages wait"
            return (
                f"{wait} in the broker for {role} workers, and none that lives (on {hosts}) takes it. See that "
                f"PIPELINE_BROKER_URL names the same Redis there as for the dispatcher on {dispatcher.host}, and "
                "start them again."
            )
    return None


def _awaited(now: Situation) -> Iterator[tuple[Role, bool]]:
    """The workers that something of the job waits for, and whether all of them have nothing to do. Tokenizers do not
    tell at what they are, so that another job may be it."""
    if now.shards_waiting:
        yield Role.TOKENIZER, not any(_is_open(job) for job in now.jobs.values() if job.id != now.job.id)
    if now.batches_waiting:
        yield Role.GPU, all(worker.state is WorkerState.IDLE for worker in now.fleet.alive(Role.GPU))


def _is_open(job: JobRecord) -> bool:
    return job.fleet and job.paused_at is None and job.state in (JobState.CUTTING, JobState.RUNNING)


def _no_producer(now: Situation) -> str | None:
    if now.job.state is not JobState.CUTTING or now.fleet.producer_of(now.job.id) is not None:
        return None
    rest = f"`pipeline resume {shlex.quote(now.job.name)}` reads the rest"
    silent = now.fleet.silent_producer_of(now.job.id)
    if silent is None:
        return f"Whoever read its input died before the end of it. {rest}."
    return (
        f"Whoever reads its input (process {silent.pid} on {silent.host}) fell silent "
        f"{duration(now.fleet.silent_s(silent))} ago. {rest}; if that process stands still, end it before "
        f"(kill -9 {silent.pid} there)."
    )


_NOT_READY = (WorkerState.STARTING, WorkerState.LOADING)

_CAUSES: tuple[Callable[[Situation], str | None], ...] = (
    _dispatcher_is_blocked,
    _no_tokenizer,
    _no_gpu,
    _tokenizers_failed,
    _gpus_failed,
    _all_blocked,
    _loading,
    _busy_elsewhere,
    _nobody_takes,
    _no_producer,
)
