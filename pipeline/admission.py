"""Whether a job may go by a name that is taken: only where it is the same job in all that changes a result."""

import shlex

from pipeline.errors import RefusedError
from pipeline.inference.checkpoint import Checkpoint
from pipeline.ingest.inputs import is_same
from pipeline.spec import JobSpec
from pipeline.store.records import JobRecord


def require_same_job(known: JobRecord, spec: JobSpec, checkpoint: Checkpoint, input_digest: str) -> None:
    """Raises RefusedError that says what differs."""
    differences = JobSpec.model_validate_json(known.spec_json).differences(spec)
    if not differences and not checkpoint.is_of(known.model_digest):
        differences.append(f"model: its files{' or those of its adapter' if spec.adapter else ''} have changed")
    if not differences and not is_same(known.input_digest, input_digest):
        differences.append("inputs: their files have changed")
    if not differences and input_digest == "stdin":
        differences.append("inputs: standard input cannot be compared with what was read before")
    if differences:
        changes = "".join(f"\n  {difference}" for difference in differences)
        raise RefusedError(
            f"There is a job {known.name} already, and this one would give other results:{changes}\n"
            f"Choose another --name, or go on with the old one: pipeline resume {shlex.quote(known.name)}"
        )
