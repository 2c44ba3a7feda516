"""From a checked JobSpec to a job in the ledger, cut and carried out; a name that is known is gone on with."""

import shlex
import shutil

from jobs.continued import go_on
from jobs.run import carry_out
from jobs.session import Session
from pipeline.admission import require_same_job
from pipeline.errors import InputError, NotFoundError, RefusedError, TryAgain
from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.ingest.inputs import Source
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.queries import find_job
from pipeline.store.records import JobRecord


def submit_job(settings: Settings, spec: JobSpec, source: Source, as_json: bool) -> int:
    """The exit status."""
    checkpoint = resolve_checkpoint(spec.model, spec.adapter)
    session = Session.open(settings)
    if (known := _known(session, spec.name)) is not None:
        return _again(session, known, spec, checkpoint, source, as_json)
    means = session.load(spec, checkpoint)
    try:
        job = _create(session, spec, checkpoint, source)
    except RefusedError:
        # Another process may have submitted the same while the model was loading.
        if (known := _known(session, spec.name)) is None:
            raise
        return _again(session, known, spec, checkpoint, source, as_json)
    try:
        session.cut(job, spec, source)
    except (InputError, TryAgain, KeyboardInterrupt) as error:
        # Nothing is answered yet. A repaired input is another job, and a stream cannot be read a second time: the
        # name must not stay taken.
        if isinstance(error, InputError) or source.is_stream:
            session.ledger.discard(job.id)
            shutil.rmtree(settings.shard_directory(job.id).parent, ignore_errors=True)
        elif isinstance(error, KeyboardInterrupt):
            told = f"Stopped while its input was being read; go on with: pipeline resume {shlex.quote(job.name)}"
            session.notes.print(told, soft_wrap=True)
        raise
    return carry_out(session, job, spec, means, as_json=as_json)


def _again(
    session: Session, known: JobRecord, spec: JobSpec, checkpoint: Checkpoint, source: Source, as_json: bool
) -> int:
    require_same_job(known, spec, checkpoint.digest, source.digest())
    session.notes.print(f"{known.name} is the same job as before.", soft_wrap=True)
    session.ledger.restate(known.id, spec.model_dump_json())
    return go_on(session, find_job(session.database, known.id), as_json=as_json)


def _known(session: Session, name: str | None) -> JobRecord | None:
    if name is None:
        return None
    try:
        job = find_job(session.database, name)
    except NotFoundError:
        return None
    return job if job.name == name else None


def _create(session: Session, spec: JobSpec, checkpoint: Checkpoint, source: Source) -> JobRecord:
    input_digest = source.digest()
    return session.ledger.create_job(
        spec.name,
        spec.model_dump_json(),
        spec.fingerprint(checkpoint.digest, input_digest),
        checkpoint.digest,
        input_digest,
    )
