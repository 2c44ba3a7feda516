"""A fleet for a person's eyes and for scripts: who works in it and on what, and how long its queues are."""

from collections.abc import Mapping

from jobs.fleet import Fleet
from jobs.standing import InFleet, iso
from jobs.tables import Column, counted, duration, print_table, size
from pipeline.store.records import BatchState, Role, WorkerRecord, WorkerState

_COLUMNS = (
    Column("ROLE"),
    Column("HOST"),
    Column("DEVICE"),
    Column("STATE"),
    Column("WORKS ON", "text"),
    Column("SEEN", "number"),
    Column("ROWS", "number"),
    Column("NOTE", "text"),
)
_ORDER = list(Role)


def print_workers(fleet: Fleet, names: Mapping[str, str]) -> None:
    """A line for each; `names` has those of the jobs by their ids."""
    print_table(*workers_table(fleet, names))


def workers_table(fleet: Fleet, names: Mapping[str, str]) -> tuple[tuple[Column, ...], list[list[str]]]:
    """The same, to be shown by others."""
    return _COLUMNS, [_cells(fleet, worker, names) for worker in _in_order(fleet)]


def queue_words(found: InFleet) -> str:
    """What of a job waits and is under way, and what of all jobs is in the broker."""
    batches, shards = found.work.batches, found.work.to_encode.parts
    words = [
        f"{batches[BatchState.PENDING].parts:,} batches waiting",
        f"{batches[BatchState.ENQUEUED].parts:,} enqueued",
        f"{batches[BatchState.LEASED].parts:,} with workers",
        f"{counted(shards, 'shard')} to encode",
    ]
    return ", ".join(words) + _broker_words(found.fleet)


def work_json(found: InFleet) -> dict[str, object]:
    """Of one job: what waits by state, what holds it up, and its fleet."""
    work = found.work
    return {
        "held_up": found.held_up,
        "shards": {state.value: amount.parts for state, amount in work.shards.items()},
        "batches": {state.value: amount.parts for state, amount in work.batches.items()},
        **fleet_json(found.fleet, found.names),
    }


def fleet_json(fleet: Fleet, names: Mapping[str, str]) -> dict[str, object]:
    """Of none or any."""
    dispatcher = fleet.dispatcher
    return {
        "dispatcher_seen_seconds_ago": None if dispatcher is None else fleet.silent_s(dispatcher),
        "broker": {"queued": fleet.queued, "memory": fleet.memory},
        "workers": [_worker_json(fleet, worker, names) for worker in _in_order(fleet)],
    }


def _in_order(fleet: Fleet) -> list[WorkerRecord]:
    return sorted(fleet.workers, key=lambda worker: (_ORDER.index(worker.role), worker.host, worker.started_at))


def _cells(fleet: Fleet, worker: WorkerRecord, names: Mapping[str, str]) -> list[str]:
    return [
        worker.role,
        worker.host,
        worker.device or "",
        _state(fleet, worker),
        _work(worker, names),
        f"{duration(fleet.silent_s(worker))} ago",
        f"{worker.rows:,}" if worker.role is Role.GPU else "",
        worker.note or "",
    ]


def _state(fleet: Fleet, worker: WorkerRecord) -> str:
    """What it said of itself, as long as that can be believed."""
    return worker.state if worker.state is WorkerState.FAILED or fleet.is_alive(worker) else "silent"


def _work(worker: WorkerRecord, names: Mapping[str, str]) -> str:
    if worker.state is WorkerState.LOADING:
        return worker.model or ""
    if worker.job_id is None:
        return ""
    name = names.get(worker.job_id, worker.job_id[:8])
    return name if worker.batch_no is None else f"{name}, batch {worker.batch_no}"


def _broker_words(fleet: Fleet) -> str:
    queued, memory = fleet.queued, fleet.memory
    if queued is None:
        return ""
    in_memory = f" in {size(memory[0])}" if memory is not None else ""
    of_all = f" of {size(memory[1])}" if memory is not None and memory[1] else ""
    return f"; the broker holds {counted(sum(queued.values()), 'message')}{in_memory}{of_all}"


def _worker_json(fleet: Fleet, worker: WorkerRecord, names: Mapping[str, str]) -> dict[str, object]:
    return {
        "id": worker.id,
        "role": worker.role,
        "host": worker.host,
        "pid": worker.pid,
        "device": worker.device,
        "state": _state(fleet, worker),
        "model": worker.model,
        "job": names.get(worker.job_id or ""),
        "batch": worker.batch_no,
        "note": worker.note,
        "started_at": iso(worker.started_at),
        "seen_seconds_ago": fleet.silent_s(worker),
        "batches": worker.batches,
        "rows": worker.rows,
        "tokens": worker.tokens,
        "busy_seconds": worker.busy_s,
    }
