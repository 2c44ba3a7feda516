"""What a fleet costs beside the engine: messages, a million short rows without a model, the first batch of a large
input, `status` on ten million rows, the same rows by one process and by a fleet, and ten minutes of a busy worker."""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from itertools import count, islice
from pathlib import Path

import fleet_processes
import pyarrow as pa
import pyarrow.parquet as pq
import report
import workloads
from fleet_processes import IDLE_WORKER, PIPELINE
from sqlalchemy import update

from pipeline.buckets import PlannedBatch
from pipeline.messages import pack
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Prompt
from pipeline.settings import Settings
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job, progress
from pipeline.store.records import BatchState
from pipeline.store.schema import batches
from pipeline.store.transactions import writing
from workers.broker.doorbell import Doorbell

TEN_MILLION = 10_000_000
BUSY_SECONDS = 600
ROLES = {"dispatcher": [*PIPELINE, "dispatcher"], "tokenizer": [*PIPELINE, "worker", "tokenizer"]}
WORKING = ROLES | {"gpu": [*PIPELINE, "worker", "gpu", "--device", "cpu"]}
IDLE = ROLES | {"gpu": IDLE_WORKER}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="short rows through a fleet without a model")
    parser.add_argument("--only", choices=PARTS, action="append", help="one of the parts, or several")
    arguments = parser.parse_args()
    print(report.machine(), flush=True)
    for name in arguments.only or PARTS:
        with tempfile.TemporaryDirectory() as directory:
            PARTS[name](Path(directory), arguments.rows)


def messages(directory: Path, rows: int) -> None:
    """A batch of 64 rows of 512 tokens, sent 1,000 times."""
    prompts = [Prompt(row, str(row), tuple((row * 97 + at * 31) % 49_000 for at in range(512))) for row in range(64)]
    payload = pack((), prompts)
    with fleet_processes.services(directory) as environment:
        doorbell = Doorbell(environment["PIPELINE_BROKER_URL"])
        before, started = doorbell.memory()[0], time.perf_counter()
        for batch_no in range(1000):
            doorbell.ring_batch("job", batch_no, payload)
        seconds, after = time.perf_counter() - started, doorbell.memory()[0]
    kept = (after - before) / 1000
    print(f"messages: {1000 / seconds:,.0f} a second; payload {len(payload):,} bytes, in the broker {kept:,.0f}")


def through(directory: Path, rows: int) -> None:
    """Short rows through tokenizer, broker, idle model and PostgreSQL."""
    table = directory / "rows.parquet"
    pq.write_table(pa.table({"text": [f"The parcel {row} came late." for row in range(rows)]}), table)
    with (
        fleet_processes.services(directory, PIPELINE_BATCH_SECONDS="1") as environment,
        fleet_processes.running(IDLE, environment) as peak,
    ):
        started = time.perf_counter()
        fleet_processes.timed([*PIPELINE, *_submit(table, "short", "--max-tokens", "1", "--raw")], environment)
        database = open_database(_settings(environment))
        _until_done(database, "short")
        seconds = time.perf_counter() - started
        memory = ", ".join(f"{name} {mb:,.0f}" for name, mb in peak.processes.items())
        print(
            f"through: {rows:,} rows in {seconds:,.0f} s from the start of submit, {rows / seconds:,.0f} rows/s "
            f"(goal: 5,000); peak MB: {memory} (goal: 500 each), broker {peak.broker:,.0f} (limit: 256)",
            flush=True,
        )


def first(directory: Path, rows: int) -> None:
    """From the start of submit, and from the job's first sign, to the first batch in a worker's hands."""
    table = directory / "rows.csv"
    with table.open("w") as file:
        file.write("text\n")
        file.writelines(f"The parcel {row} came late.\n" for row in range(5 * rows))
    with (
        fleet_processes.services(directory) as environment,
        fleet_processes.running(IDLE, environment),
        fleet_processes.running(
            {"submit": [*PIPELINE, *_submit(table, "large", "--max-tokens", "1", "--raw")]}, environment
        ),
    ):
        started = time.time()
        database = open_database(_settings(environment))
        begun = _first_begun(database, "large")
        job = find_job(database, "large")
        state = job.state
        print(
            f"first: {5 * rows:,} rows; the first batch was taken {begun - started:.1f} s after the start of submit, "
            f"{begun - job.submitted_at:.2f} s after the job was there (goal: 3 s); the job was still {state}",
            flush=True,
        )


def status(directory: Path, rows: int) -> None:
    """`status` on a job of ten million rows, most of them answered."""
    with fleet_processes.services(directory) as environment:
        database = open_database(_settings(environment))
        _ten_million(database)
        seconds = min(fleet_processes.timed([*PIPELINE, "status", "huge"], environment)[0] for _ in range(5))
    print(f"status: {seconds:.2f} s on a job of {TEN_MILLION:,} rows (goal: 0.7 s), the best of five", flush=True)


def overhead(directory: Path, rows: int) -> None:
    """The same 512 reviews after the same instruction, 16 tokens each, in the same batches of about 5 s, by one process
    and by a fleet here that has its model loaded, as the one process has when its first batch is taken."""
    # A shard is a batch: of all its rows, whatever rate was measured.
    batches = {"PIPELINE_SHARD_ROWS": "32", "PIPELINE_BATCH_ROWS": "32", "PIPELINE_BATCH_SECONDS": "600"}
    with fleet_processes.services(directory, **batches) as environment:
        asked = _reviews(directory, 512)
        alone = _active(environment, asked, "alone", "--here")
        with fleet_processes.running(WORKING, environment):
            _active(environment, [*asked, "--limit", "32"], "warm", "--wait")
            together = _active(environment, asked, "together", "--wait")
            computed = _computed(environment, "together", together)
    print(
        f"overhead: 512 rows in {alone:.1f} s by one process, in {together:.1f} s by a fleet: "
        f"{together / alone - 1:+.1%} (goal: 5 %), from the first batch taken to the last recorded; {computed}",
        flush=True,
    )


def busy(directory: Path, rows: int) -> None:
    """A worker's share of time in the model, on a job of ten minutes cut as any other."""
    with fleet_processes.services(directory) as environment, fleet_processes.running(WORKING, environment):
        asked = _reviews(directory, 256)
        _active(environment, [*asked, "--limit", "32"], "warm", "--wait")
        rate = 256 / _active(environment, asked, "measured", "--wait")
        asked = _reviews(directory, n_rows := int(rate * BUSY_SECONDS))
        seconds = _active(environment, asked, "long", "--wait")
        computed = _computed(environment, "long", seconds)
    print(f"busy: {n_rows:,} rows in {seconds:.0f} s; {computed}", flush=True)


PARTS = {
    "messages": messages,
    "status": status,
    "first": first,
    "overhead": overhead,
    "through": through,
    "busy": busy,
}


def _reviews(directory: Path, rows: int) -> list[str]:
    """What asks for 16 tokens of each of so many reviews after the same instruction; the job's name is left empty."""
    table, prompt = directory / "reviews.parquet", directory / "prompt.txt"
    texts = workloads.questions(rows)
    told_apart = (text if not again else f"{text} ({again})" for again in count() for text in texts)
    pq.write_table(pa.table({"text": list(islice(told_apart, rows))}), table)
    prompt.write_text(_instruction(directory).replace("{", "{{").replace("}", "}}") + "{text}")
    return _submit(table, "", "--raw", "--max-tokens", "16", "--prompt", f"@{prompt}")


def _computed(environment: Mapping[str, str], job: str, active: float) -> str:
    told = json.loads(fleet_processes.timed([*PIPELINE, "status", job, "--json"], environment)[1])
    seconds = {name: round(value, 2) for name, value in told["seconds"].items()}
    share = sum(seconds[stage] for stage in ("prefix", "prefill", "decode", "detokenize")) / active
    return f"its worker computed {share:.1%} of that time (goal: 95 %); seconds by stage {seconds}"


def _submit(table: Path, name: str, *more: str) -> list[str]:
    prompt = () if "--prompt" in more else ("--prompt", "{text}")
    return ["submit", str(table), "--name", name, "--model", "smollm2-135m", *prompt, *more]


def _active(environment: Mapping[str, str], asked: list[str], name: str, where: str) -> float:
    named = [name if part == "" else part for part in asked]
    printed = fleet_processes.timed([*PIPELINE, *named, where, "--json"], environment)[1]
    return float(json.loads(printed)["active_seconds"])


def _instruction(directory: Path) -> str:
    from pipeline.inference.checkpoint import resolve_checkpoint
    from pipeline.inference.loading import save_tokenizer

    return workloads.instruction(Vocabulary(save_tokenizer(resolve_checkpoint("smollm2-135m"), directory)))


def _settings(environment: Mapping[str, str]) -> Settings:
    return Settings.from_environment(environment)


def _until_done(database: Database, name: str) -> None:
    while find_job(database, name).state != "done":
        time.sleep(0.5)


def _first_begun(database: Database, name: str) -> float:
    while True:
        try:
            begun = progress(database, find_job(database, name).id).started_at
        except Exception:  # the job is not there yet
            begun = None
        if begun is not None:
            return begun
        time.sleep(0.01)


def _ten_million(database: Database) -> None:
    """All but the last ten shards answered, in batches of 128 rows."""
    ledger, n_shards = Ledger(database), TEN_MILLION // 4096 + 1
    spec = {"inputs": ["rows.parquet"], "model": "smollm2-135m", "prompt": "{text}"}
    job = ledger.create_job("huge", json.dumps(spec), "print", "model", "input", fleet=True)
    for shard in range(n_shards):
        first_row = 4096 * shard
        ledger.add_shard(job.id, shard, "/nowhere", first_row, first_row + 4096)
        starts = range(first_row, first_row + 4096, 128)
        planned = [PlannedBatch(tuple(range(start, start + 128)), 8192) for start in starts]
        ledger.record_encoding(job.id, shard, planned, [], 1.0)
    ledger.finish_cutting(job.id, 4096 * n_shards)
    done = {"state": BatchState.DONE, "n_ok": 128, "prefill_s": 1.0, "started_at": 1.8e9, "finished_at": 1.9e9}
    with writing(database) as connection:
        connection.execute(update(batches).where(batches.c.shard_no < n_shards - 10).values(done))


if __name__ == "__main__":
    main()
