"""What the commands that run a job work with: settings, the ledger, and where to speak. Made once in each."""

from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console

from jobs.progress import waiting
from pipeline.errors import RefusedError
from pipeline.inference.checkpoint import Checkpoint
from pipeline.ingest.faults import writing
from pipeline.ingest.inputs import Source
from pipeline.journey import cut_job
from pipeline.means import Means, load_means
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.queries import list_shards, progress
from pipeline.store.records import JobRecord, Progress
from workers.process import Members


@dataclass(frozen=True, slots=True)
class Session:
    """`notes` is standard error: progress and remarks. Standard output is for answers alone."""

    settings: Settings
    database: Database
    ledger: Ledger
    notes: Console

    @classmethod
    def open(cls, settings: Settings) -> "Session":
        settings.make_home()
        database = open_database(settings)
        return cls(settings, database, Ledger(database), Console(stderr=True, highlight=False))

    def load(self, spec: JobSpec, checkpoint: Checkpoint) -> Means:
        with waiting(self.notes, f"Loading {spec.model} ..."):
            return load_means(spec, checkpoint, self.settings)

    def cut(self, job: JobRecord, spec: JobSpec, source: Source) -> None:
        """From the first row that is in no shard yet. Raises RefusedError where another process is at it."""
        directory = self.settings.shard_directory(job.id)
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(directory / "cutting.lock", timeout=0), Members(self.settings.home).joined(job.id):
                self._cut(job, spec, source, directory)
        except Timeout:
            raise RefusedError(f"The input of {job.name} is being read by another process; let it finish.") from None

    def _cut(self, job: JobRecord, spec: JobSpec, source: Source, directory: Path) -> None:
        shards = list_shards(self.database, job.id)
        shard_rows = shards[0].row_to - shards[0].row_from if shards else self.settings.shard_rows
        cut_rows = shards[-1].row_to if shards else 0
        with waiting(self.notes, "Reading the input ..."):
            cut_job(self.ledger, job, spec, source, directory, shard_rows, cut_rows)

    def figures(self, job: JobRecord) -> Progress:
        return progress(self.database, job.id)
