"""A job that is in the ledger already goes on from where it stands, whatever stopped it."""

from dataclasses import replace

from jobs.checkpoint import find_checkpoint
from jobs.conclusion import conclude
from jobs.fleet import Fleet, there_is_a_fleet
from jobs.handover import deliver, hand_over
from jobs.manner import Manner
from jobs.session import Session
from pipeline.errors import RefusedError
from pipeline.inference.checkpoint import Checkpoint
from pipeline.ingest.inputs import bytes_of, is_same
from pipeline.source import source_of
from pipeline.spec import JobSpec
from pipeline.store.purged import require_results, require_shards
from pipeline.store.queries import find_job, list_pages, list_shards
from pipeline.store.records import JobRecord, JobState
from workers.process import Members


def go_on(session: Session, job: JobRecord, manner: Manner) -> int:
    """The exit status. Raises RefusedError where the model or the input is not what it was, or was purged."""
    require_results(job)
    require_shards(job)
    spec = JobSpec.model_validate_json(job.spec_json)
    if job.state is JobState.DONE:
        return conclude(session, job, spec, as_json=manner.as_json)
    go = _in_fleet if _is_for_the_fleet(session, job, manner) else _here
    return go(session, job, spec, manner)


def _is_for_the_fleet(session: Session, job: JobRecord, manner: Manner) -> bool:
    """A job that a process here is at goes on here, and so does one whose shards lie where the fleet does not look."""
    if manner.here or not there_is_a_fleet(session.settings, session.database):
        return False
    if job.fleet:
        return True
    if job.id in Members(session.settings.home).jobs_at_work():
        return False
    place = session.settings.shard_directory(job.id)
    paths = [shard.path for shard in list_shards(session.database, job.id)]
    paths += [page.path for page in list_pages(session.database, job.id)]
    return all(path.startswith(place) for path in paths)


def _in_fleet(session: Session, job: JobRecord, spec: JobSpec, manner: Manner) -> int:
    if job.tokenizer is None:
        deliver(session, job, session.load_outfit(spec, _same_model(session, job, spec)))
    if not job.fleet:
        session.ledger.take_over(job.id, fleet=True)
    job = _awake(session, job)
    if job.state is JobState.CUTTING and Fleet.seen(session.database).producer_of(job.id) is None:
        _cut_the_rest(session, job, spec)
    return hand_over(session, job, spec, manner)


def _here(session: Session, job: JobRecord, spec: JobSpec, manner: Manner) -> int:
    # torch takes seconds to import; what goes on in a fleet has no need of it.
    from jobs.run import carry_out

    means = session.load(spec, _same_model(session, job, spec))
    if job.fleet:
        session.ledger.take_over(job.id, fleet=False)
    job = _awake(session, job)
    if job.state is JobState.CUTTING:
        _cut_the_rest(session, job, spec)
    return carry_out(session, job, spec, means, manner)


def _awake(session: Session, job: JobRecord) -> JobRecord:
    """The job as it is now, neither cancelled nor paused."""
    if job.state is JobState.CANCELLED:
        session.ledger.revive(job.id)
    if job.paused_at is not None:
        session.ledger.unpause(job.id)
    return find_job(session.database, job.id)


def _same_model(session: Session, job: JobRecord, spec: JobSpec) -> Checkpoint:
    checkpoint = find_checkpoint(session.settings.home, spec.model, spec.adapter)
    if not checkpoint.is_of(job.model_digest):
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
    source = source_of(spec, session.settings.source_url)
    if not is_same(digest := source.digest(), job.input_digest):
        _require_as_long(job, digest)
        session.notes.print(
            f"The files of {job.name} were moved or written anew since its first rows were read, so these rows are "
            "compared with what the files hold now.",
            soft_wrap=True,
        )
        source = replace(source, doubtful=True)
    session.cut(job, spec, source)


def _require_as_long(job: JobRecord, digest: str) -> None:
    before, now = bytes_of(job.input_digest), bytes_of(digest)
    if before is not None and now != before:
        raise RefusedError(
            f"The input of {job.name} has changed since its first rows were read: it has {now or 0:,} bytes, and had "
            f"{before:,}. Put the old files back, or submit a new job under another name."
        )
