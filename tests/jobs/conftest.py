"""A home directory with real shards and a real database, jobs at every stage in it, and ways to run the command."""

import json
import os
import pty
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from jobs.cli import cli
from pipeline.buckets import PlannedBatch
from pipeline.ingest.inputs import resolve
from pipeline.ingest.shards import cut
from pipeline.rows import BatchTiming, Completion, LabelScore, Sample, Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, Role, WorkerState
from pipeline.store.registry import Registry

COMMAND = (sys.executable, "-c", "from jobs.cli import main; main()")
#: Nothing listens there; a submission must not care.
BROKER = {"PIPELINE_BROKER_URL": "redis://:secret@127.0.0.1:1/0", "PIPELINE_SHARD_ROWS": "2"}
REVIEWS = ("Lovely", "A long story\nin two lines", "Broke, 'soon'", "日本語のレビューです", "Fine", "Too long")


@dataclass
class Clock:
    now: float = 1_795_950_000.0  # 2026-11-29, UTC

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """Six rows, r0 to r5, in shards of four. Row 1 is cut short, row 5 is an error; each batch has two rows and takes
    two seconds."""

    home: Path
    settings: Settings
    database: Database
    clock: Clock = field(default_factory=Clock)
    rename: dict[str, str] = field(default_factory=dict)  #: other names for the columns id, review and stars

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.database, self.clock)

    @property
    def real(self) -> Ledger:
        """By the true time, as that of the command."""
        return Ledger(self.database)

    def shards(self, name: str) -> str:
        return str(self.home / "jobs" / name / "shards")

    def cutting(self, name: str, *, fleet: bool = False, **fields: object) -> JobRecord:
        """A job whose first shard is there."""
        self.clock.now += 60
        source = self._input()
        spec = JobSpec.model_validate(
            {"inputs": [str(source)], "model": "m", "prompt": "{review} is {stars}", "key": "id", **fields}
        )
        job = self.ledger.create_job(name, spec.model_dump_json(), "print", "model", "input", fleet=fleet)
        shards = cut(resolve([str(source)]), self.shards(job.id), shard_rows=4, key=spec.key, limit=None)
        first = next(shards)
        self.ledger.add_shard(job.id, first.shard_no, first.path, first.row_from, first.row_to)
        return job

    def running(self, name: str, batches: int = 0, **fields: object) -> JobRecord:
        """Encoded, with so many batches answered."""
        job = self.cutting(name, **fields)
        spec = JobSpec.model_validate_json(job.spec_json)
        for shard in cut(
            resolve(spec.inputs), self.shards(job.id), shard_rows=4, key=spec.key, limit=None, skip_rows=4
        ):
            self.ledger.add_shard(job.id, shard.shard_no, shard.path, shard.row_from, shard.row_to)
        self.ledger.finish_cutting(job.id, 6)
        self.ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1), 9), PlannedBatch((2, 3), 9)], [], 0.25)
        self.ledger.record_encoding(job.id, 1, [PlannedBatch((4,), 5)], [_outcome(5, spec)], 0.25)
        for _ in range(batches):
            self._answer(job, spec)
        return job

    def done(self, name: str, **fields: object) -> JobRecord:
        job = self.running(name, batches=3, **fields)
        assert self.ledger.complete(job.id)
        return job

    def enter(
        self, role: Role, state: WorkerState = WorkerState.IDLE, *, host: str = "far", pid: int = 1, **news: Any
    ) -> str:
        """A process of a fleet that gave a sign of life just now; its id."""
        registry = Registry(self.database)
        worker_id = registry.enter(role, host, pid, news.pop("device", None))
        registry.beat(worker_id, state=state, **news)
        return worker_id

    def claim(self, job: JobRecord, owner: str) -> Claim:
        claim = self.ledger.claim(job.id, owner, 60.0)
        assert claim is not None
        return claim

    def _answer(self, job: JobRecord, spec: JobSpec) -> None:
        claim = self.claim(job, "anyone")
        self.clock.now += 2
        timing = BatchTiming(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, computed_tokens=1000, reused_tokens=3000, output_tokens=20)
        assert self.ledger.finish(claim, [_outcome(row_id, spec) for row_id in claim.row_ids], timing, "cpu")

    def _input(self) -> Path:
        path = self.home / "reviews.jsonl"
        rows = ({"id": f"r{row}", "review": review, "stars": row} for row, review in enumerate(REVIEWS))
        renamed = ({self.rename.get(name, name): value for name, value in row.items()} for row in rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in renamed))
        return path


def _outcome(row_id: int, spec: JobSpec) -> Completion:
    key = str(row_id) if spec.key is None else f"r{row_id}"
    if row_id == 5:
        return Completion(row_id, key, Status.ERROR, error_type="too_long", error="The prompt has 900 tokens.")
    if spec.choices is not None:
        label = spec.choices[row_id % 2]
        labels = tuple(sorted(spec.choices)) if spec.multi_label else ()
        scores = tuple(LabelScore(each, 0.876 if each == label else 0.5) for each in spec.choices)
        return Completion(
            row_id, key, Status.OK, label, label, 0.876, finish_reason="choice", labels=labels, scores=scores
        )
    if spec.embed is not None:
        return Completion(row_id, key, Status.OK, embedding=struct.pack("<4f", 0.5, -0.5, row_id, 0.125))
    if spec.score is not None:
        return Completion(row_id, key, Status.OK, output_tokens=4, logprob=-8.125, perplexity=7.625)
    status = Status.TRUNCATED if row_id == 1 else Status.OK
    return Completion(
        row_id, key, status, output=f"answer {row_id}", finish_reason="stop", samples=_samples(row_id, spec.n)
    )


def _samples(row_id: int, n: int) -> tuple[Sample, ...]:
    """None for one answer; of several to row 1, the last one is cut short."""
    if n == 1:
        return ()
    texts = [f"answer {row_id}", *(f"answer {row_id}.{sample_no}" for sample_no in range(1, n))]
    reasons = ["stop"] * (n - 1) + ["length" if row_id == 1 else "stop"]
    return tuple(Sample(text, reason, 2) for text, reason in zip(texts, reasons, strict=True))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """What a subprocess sees."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    return kept | {"PIPELINE_HOME": str(home), "COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1"}


@pytest.fixture
def desk(home: Path, ready_sqlite: Path) -> Iterator[Desk]:
    shutil.copy(ready_sqlite, home)
    settings = Settings.from_environment({"PIPELINE_HOME": str(home)})
    database = open_database(settings)
    yield Desk(home, settings, database)
    database.dispose()


@pytest.fixture
def run(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """In this process, standard output being a pipe. Only click's own exits are let through."""
    for name in [name for name in os.environ if name.startswith("PIPELINE_")]:
        monkeypatch.delenv(name)

    def run_one(*arguments: str, **variables: str) -> Result:
        result = CliRunner(env=environment | variables).invoke(cli, arguments, prog_name="pipeline")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return run_one


@pytest.fixture
def terminal(environment: dict[str, str]) -> Callable[..., str]:
    """In a process of its own that has a terminal of 100 columns; what it shows there."""

    def show(*arguments: str, **variables: str) -> str:
        ours, theirs = pty.openpty()
        process = subprocess.Popen([*COMMAND, *arguments], stdout=theirs, stderr=theirs, env=environment | variables)
        os.close(theirs)
        shown = b""
        try:
            while some := os.read(ours, 4096):
                shown += some
        except OSError:
            pass  # how Linux tells that the other end is closed
        finally:
            os.close(ours)
        process.wait(timeout=30)
        return shown.decode().replace("\r\n", "\n")

    return show


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Five of them."""
    path = tmp_path / "rows.csv"
    path.write_text("id,text\n" + "".join(f"r{row},Hello {row}\n" for row in range(5)))
    return path


@pytest.fixture
def submit(run: Callable[..., Result], rows: Path, tiny_model: Path) -> Callable[..., Result]:
    """`pipeline submit` in this process; of a flag given twice the last one counts."""

    def submit_one(*arguments: str, **variables: str) -> Result:
        usual = ("--name", "night", "--model", str(tiny_model), "--prompt", "Say: {text}", "--max-tokens", "2")
        return run("submit", str(rows), *usual, *arguments, **variables)

    return submit_one


@pytest.fixture
def at_shard(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[str], None]], None]:
    """Calls back when a shard has been recorded, with the job's id."""

    def install(shard_no: int, callback: Callable[[str], None]) -> None:
        add = Ledger.add_shard

        def and_then(ledger: Ledger, job_id: str, number: int, *rest: Any) -> None:
            add(ledger, job_id, number, *rest)
            if number == shard_no:
                callback(job_id)

        monkeypatch.setattr(Ledger, "add_shard", and_then)

    return install


@pytest.fixture
def job_file(rows: Path, tiny_model: Path) -> Callable[..., Path]:
    """Writes a job's file beside the rows, on which it has a pattern."""

    def write(**fields: object) -> Path:
        usual = {"inputs": "rows*.csv", "model": str(tiny_model), "prompt": "Say: {text}", "key": "id", "max_tokens": 2}
        path = rows.parent / "job.yaml"
        path.write_text(yaml.safe_dump({name: value for name, value in (usual | fields).items() if value is not None}))
        return path

    return write


@pytest.fixture
def add(run: Callable[..., Result], job_file: Callable[..., Path]) -> Callable[..., Result]:
    """At times that hardly come, so that none comes by itself."""

    def add_one(name: str = "night", *more: str, job: dict[str, object] | None = None) -> Result:
        return run("schedule", "add", name, "--cron", "0 2 29 2 *", "--job", str(job_file(**(job or {}))), *more)

    return add_one
