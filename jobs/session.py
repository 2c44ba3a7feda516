"""What the commands that run a job work with: settings, the ledger, and where to speak. Made once in each."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from rich.console import Console

from jobs.announcement import foretold_reuse, sorted_first
from jobs.producer import being_read, producing
from jobs.progress import waiting
from jobs.tables import left_out, strange
from pipeline.cutting import cut_job, page_job, sort_job
from pipeline.errors import PipelineError
from pipeline.foretelling import Foreteller
from pipeline.inference.checkpoint import Checkpoint
from pipeline.ingest.faults import writing
from pipeline.ingest.inputs import Source
from pipeline.ingest.places import delete
from pipeline.ingest.sorted_shards import Sorting
from pipeline.order import order_that_pays
from pipeline.outfit import Outfit, load_outfit
from pipeline.prompts.shapes import columns_of
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.queries import list_pages, list_shards, progress
from pipeline.store.records import JobRecord, Progress
from workers.process import Members

if TYPE_CHECKING:
    from pipeline.means import Means


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

    def warn(self, warning: str | None) -> None:
        if warning is not None:
            self.notes.print(f"Warning: {warning}", soft_wrap=True, markup=False)

    def load(self, spec: JobSpec, checkpoint: Checkpoint) -> "Means":
        from pipeline.means import load_means

        with waiting(self.notes, f"Loading {spec.model} ..."):
            return load_means(spec, checkpoint, self.settings)

    def load_outfit(self, spec: JobSpec, checkpoint: Checkpoint) -> Outfit:
        """All that can be had of the model without its weights."""
        with waiting(self.notes, f"Reading what {spec.model} is ..."):
            return load_outfit(spec, checkpoint, self.settings)

    def cut(self, job: JobRecord, spec: JobSpec, source: Source, foreteller: Foreteller | None = None) -> None:
        """From the first row that is in no shard yet. Raises RefusedError where another process is at it."""
        present = producing(self.database, job) if job.fleet else Members(self.settings.home).joined(job.id)
        with self._alone(job), present:
            self._cut(job, spec, source, foreteller)

    def discard(self, job: JobRecord) -> None:
        """As if it had never been submitted. Raises RefusedError where rows of it may be answered already."""
        self.ledger.discard(job.id)
        with suppress(PipelineError):
            delete(self.settings.shard_directory(job.id))
        shutil.rmtree(self._directory(job), ignore_errors=True)

    def cut_rows(self, job: JobRecord) -> int:
        """Of the input, those that are in shards."""
        shards = list_shards(self.database, job.id)
        return shards[-1].row_to // job.n_questions if shards else 0

    @contextmanager
    def _alone(self, job: JobRecord) -> Iterator[None]:
        """Among the processes that share this home. The lock's own file is emptied by whoever tries it."""
        directory = self._directory(job)
        holder = directory / "cutting.process"
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(directory / "cutting.lock", timeout=0):
                with writing(directory):
                    holder.write_text(f"{os.getpid()} on {socket.gethostname()}")
                try:
                    yield
                finally:
                    holder.unlink(missing_ok=True)
        except Timeout:
            # Just begun, it has not told yet.
            raise being_read(job, holder.read_text() if holder.exists() else None) from None

    def _cut(self, job: JobRecord, spec: JobSpec, source: Source, foreteller: Foreteller | None) -> None:
        count, pages = job.n_questions, list_pages(self.database, job.id)
        shard_rows = max(1, self.settings.shard_rows // count)
        sorts_rows = self._sorts_rows(job, spec, source, shard_rows, foreteller)
        size, cut_rows = (len(pages[0].rows) // count, pages[-1].row_to // count) if pages else (shard_rows, 0)
        directory = self.settings.shard_directory(job.id)
        with waiting(self.notes, "Reading the input ..."):
            read = page_job if sorts_rows else cut_job
            tally = read(self.ledger, job, spec, source, directory, size, cut_rows)
        if source.taking is not None:
            self.notes.print(left_out(tally.left_out, tally.read), soft_wrap=True)
        if tally.first_strange is not None:
            self.warn(strange(tally.strange, tally.first_strange))
        if sorts_rows:
            self._sort(job, spec, directory, shard_rows)

    def _sorts_rows(
        self, job: JobRecord, spec: JobSpec, source: Source, shard_rows: int, foreteller: Foreteller | None
    ) -> bool:
        """As it was chosen when the first row of the job was read, which is now or was before."""
        if job.sorts_rows is not None or list_shards(self.database, job.id):
            return bool(job.sorts_rows)
        with waiting(self.notes, "Looking at some rows ..."):
            order = order_that_pays(spec, source, shard_rows)
            foretold = None if foreteller is None else foreteller.foretell(spec, source, order)
        self.ledger.set_outlook(job.id, order is not None, None if foretold is None else foretold.reused)
        if order is not None:
            self.notes.print(sorted_first(order), soft_wrap=True, markup=False)
        if foretold is not None:
            self.notes.print(foretold_reuse(foretold), soft_wrap=True)
        return order is not None

    def _sort(self, job: JobRecord, spec: JobSpec, directory: str, shard_rows: int) -> None:
        sorting = Sorting(columns_of(spec), spec.key, shard_rows, self._directory(job))
        pages, shards = list_pages(self.database, job.id), list_shards(self.database, job.id)
        with waiting(self.notes, "Sorting the rows ..."):
            sort_job(self.ledger, job, directory, sorting, pages, shards)

    def _directory(self, job: JobRecord) -> Path:
        """What this machine keeps of a job; its shards may lie elsewhere."""
        return self.settings.home.absolute() / "jobs" / job.id

    def figures(self, job: JobRecord) -> Progress:
        return progress(self.database, job.id)
