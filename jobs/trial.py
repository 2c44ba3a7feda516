"""A job of two rows from submission to results, in a home of its own, whose answers are known."""

import io
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

from jobs.manner import Manner
from jobs.new_job import submit_job
from pipeline.errors import JobError
from pipeline.inference.checkpoint import SMALL_MODEL
from pipeline.settings import Settings
from pipeline.source import source_of
from pipeline.spec import build_spec
from pipeline.store.database import open_database
from pipeline.store.queries import find_job, stream_results

#: What a model that computes right says of them.
_ROWS = {"The capital of France is": "Paris", "The capital of Germany is": "Berlin"}


def trial(settings: Settings) -> str:
    """What came of it. Raises PipelineError; what the job says meanwhile is not shown."""
    try:
        with tempfile.TemporaryDirectory() as home:
            database = f"sqlite:///{home}/pipeline.db"
            alone = replace(settings, home=Path(home), database_url=database, broker_url=None, shards=None)
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
                labels = _labels(alone)
    except OSError as error:
        raise JobError(
            f"A job of two rows cannot be written down: {error.strerror}. Set TMPDIR to a folder with room."
        ) from error
    if labels != list(_ROWS.values()):
        raise JobError(
            f"{SMALL_MODEL} on {settings.device} says {labels} where {list(_ROWS.values())} is right, so no answer can "
            f"be trusted. {said.getvalue().strip()}"
        )
    return f"{len(labels)} rows answered by {SMALL_MODEL}, both right"


def _labels(settings: Settings) -> list[str | None]:
    rows = settings.home / "rows.txt"
    rows.write_text("\n".join(_ROWS))
    fields = {"inputs": str(rows), "model": SMALL_MODEL, "name": "trial", "prompt": "{text}", "raw": True}
    spec = build_spec(fields | {"choices": tuple(_ROWS.values())})
    submit_job(settings, spec, source_of(spec, None), Manner(here=True))
    database = open_database(settings)
    try:
        return [result.label for result in stream_results(database, find_job(database, "trial").id)]
    finally:
        database.dispose()
