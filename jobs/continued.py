"""A job that is in the ledger already goes on from where it stands, whatever stopped it."""

from jobs.run import carry_out, report
from jobs.session import Session
from pipeline.errors import RefusedError
from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.ingest.inputs import resolve
from pipeline.spec import JobSpec
from pipeline.store.queries import find_job
from pipeline.store.records import JobRecord, JobState


def go_on(session: Session, job: JobRecord, *, as_json: bool) -> int:
    """The exit status. Raises RefusedError where the model or the input is not what it was."""
    spec = JobSpec.model_validate_json(job.spec_json)
    if job.state is JobState.DONE:
        return report(session, job, spec, as_json=as_json)
    checkpoint = _same_model(job, spec)
    if job.state is JobState.CANCELLED:
        session.ledger.revive(job.id)
        job = find_job(session.database, job.id)
    means = session.load(spec, checkpoint)
    if job.state is JobState.CUTTING:
        _cut_the_rest(session, job, spec)
    return carry_out(session, job, spec, means, as_json=as_json)


def _same_model(job: JobRecord, spec: JobSpec) -> Checkpoint:
    checkpoint = resolve_checkpoint(spec.model, spec.adapter)
    if checkpoint.digest != job.model_digest:
        raise RefusedError(
            f"The model {spec.model} is not the one that {job.name} began with: "
            f"its files{' or those of its adapter' if spec.adapter else ''} have changed. "
            "Put the old files back, or submit a new job under another name."
        )
    return checkpoint


def _cut_the_rest(session: Session, job: JobRecord, spec: JobSpec) -> None:
    if "-" in spec.inputs:
        raise RefusedError(
            f"The standard input of {job.name} was not read to its end, and cannot be read again. "
            "Write it to a file, and submit that under another name."
        )
    source = resolve(spec.inputs)
    if source.digest() != job.input_digest:
        raise RefusedError(
            f"The input of {job.name} has changed since its first rows were read. "
            "Put the old files back, or submit a new job under another name."
        )
    session.cut(job, spec, source)
