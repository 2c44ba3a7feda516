"""From a checked JobSpec to a job in the ledger, cut and carried out; a name that is known is gone on with."""

import shlex

from jobs.announcement import announcement
from jobs.checkpoint import find_checkpoint
from jobs.continued import go_on
from jobs.fleet import Fleet, there_is_a_fleet
from jobs.handover import deliver, hand_over
from jobs.manner import Manner
from jobs.session import Session
from jobs.tables import counted, duration
from pipeline.admission import require_same_job
from pipeline.encoder import warning
from pipeline.errors import InputError, NotFoundError, PipelineError, RefusedError, TryAgain
from pipeline.foretelling import Foreteller
from pipeline.inference.checkpoint import Checkpoint
from pipeline.ingest.inputs import Source
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.queries import find_job
from pipeline.store.records import JobRecord
from pipeline.store.registry import Registry
from pipeline.store.schedule_records import RunClaim
from pipeline.store.schedule_runs import ScheduleRuns
from workers.prices import expected_costs


def submit_job(settings: Settings, spec: JobSpec, source: Source, manner: Manner, run: RunClaim | None = None) -> int:
    """The exit status. The job of a schedule's run is a new one, whose name nobody has."""
    checkpoint = find_checkpoint(settings.home, spec.model, spec.adapter)
    session = Session.open(settings)
    if run is None and (known := _known(session, spec.name)) is not None:
        return _again(session, known, spec, checkpoint, source, manner)
    session.notes.print(announcement(spec), soft_wrap=True, markup=False)
    begin = _begin_in_fleet if not manner.here and there_is_a_fleet(settings, session.database) else _begin_here
    if begin is _begin_here and not manner.here:
        _tell_of_a_gone_fleet(session)
    try:
        return begin(session, spec, checkpoint, source, manner, run)
    except _NameTaken:
        # By another process, which submitted the same while the model was loading.
        return _again(session, find_job(session.database, str(spec.name)), spec, checkpoint, source, manner)


def _tell_of_a_gone_fleet(session: Session) -> None:
    """Whoever has it still in mind would wonder who computes."""
    fleet = Fleet.seen(session.database)
    if (last := fleet.last_dispatcher) is not None:
        session.notes.print(
            f"This process answers the job, as the fleet that ran on this machine is gone; it was heard of "
            f"{duration(fleet.silent_s(last))} ago. A new one has it once `pipeline up` runs and this is stopped: "
            "`pipeline resume` hands the job over.",
            soft_wrap=True,
        )


class _NameTaken(Exception):  # noqa: N818 - no error of anybody's
    """There is a job of this name by now."""


def _begin_here(
    session: Session, spec: JobSpec, checkpoint: Checkpoint, source: Source, manner: Manner, run: RunClaim | None
) -> int:
    # torch takes seconds to import; what goes to a fleet has no need of it.
    from jobs.run import carry_out

    means = session.load(spec, checkpoint)
    session.warn(warning(spec, means.vocabulary))
    job = _create(session, spec, checkpoint, source, run, in_fleet=False)
    foreteller = Foreteller(means.vocabulary, means.model.context, means.costs, session.settings.batch_rows)
    _cut(session, job, spec, source, manner, foreteller)
    return carry_out(session, job, spec, means, manner)


def _begin_in_fleet(
    session: Session, spec: JobSpec, checkpoint: Checkpoint, source: Source, manner: Manner, run: RunClaim | None
) -> int:
    outfit = session.load_outfit(spec, checkpoint)
    session.warn(warning(spec, outfit.vocabulary))
    job = _create(session, spec, checkpoint, source, run, in_fleet=True)
    deliver(session, job, outfit)
    costs = expected_costs(spec, Registry(session.database))
    foreteller = Foreteller(outfit.vocabulary, outfit.facts.context, costs, session.settings.batch_rows)
    _cut(session, job, spec, source, manner, foreteller)
    return hand_over(session, job, spec, manner)


def _create(
    session: Session, spec: JobSpec, checkpoint: Checkpoint, source: Source, run: RunClaim | None, *, in_fleet: bool
) -> JobRecord:
    input_digest = source.digest()
    try:
        return session.ledger.create_job(
            spec.name,
            spec.model_dump_json(),
            spec.fingerprint(checkpoint.digest, input_digest),
            checkpoint.digest,
            input_digest,
            fleet=in_fleet,
            priority=spec.priority,
            questions=[question.name for question in spec.questions],
            run=run,
        )
    except RefusedError as error:
        if _known(session, spec.name) is None:
            raise
        if run is None:
            raise _NameTaken from error
        renamed = spec.model_copy(update={"name": ScheduleRuns(session.database).rename(run)})
        return _create(session, renamed, checkpoint, source, run, in_fleet=in_fleet)


def _cut(
    session: Session, job: JobRecord, spec: JobSpec, source: Source, manner: Manner, foreteller: Foreteller
) -> None:
    try:
        session.cut(job, spec, source, foreteller)
    except (InputError, TryAgain, KeyboardInterrupt) as error:
        # A repaired input is another job, and a stream cannot be read a second time.
        if isinstance(error, InputError) or source.is_stream:
            _undo(session, job, error)
        elif isinstance(error, KeyboardInterrupt):
            session.notes.print(f"Stopped while its input was being read{manner.way_on(job.name)}", soft_wrap=True)
        raise


def _undo(session: Session, job: JobRecord, error: BaseException) -> None:
    """Where nothing is answered yet, the name must not stay taken. A fleet may have begun: then it stops at that."""
    try:
        session.discard(job)
    except RefusedError:
        why = str(error) if isinstance(error, PipelineError) else "It was stopped while its input was being read."
        session.ledger.pause(job.id, why)
        taken, name = counted(session.cut_rows(job), "row"), shlex.quote(job.name)
        session.notes.print(
            f"{taken} of {job.name} had been taken before, and what is answered of them stays: "
            f"pipeline results {name}\nThe job is paused. Submit the whole input under another name; "
            f"`pipeline cancel {name}` closes this one.",
            soft_wrap=True,
        )


def _again(
    session: Session, known: JobRecord, spec: JobSpec, checkpoint: Checkpoint, source: Source, manner: Manner
) -> int:
    require_same_job(known, spec, checkpoint, source.digest())
    session.notes.print(f"{known.name} is the same job as before.", soft_wrap=True)
    session.ledger.restate(known.id, spec.model_dump_json(), spec.priority)
    return go_on(session, find_job(session.database, known.id), manner)


def _known(session: Session, name: str | None) -> JobRecord | None:
    if name is None:
        return None
    try:
        job = find_job(session.database, name)
    except NotFoundError:
        return None
    return job if job.name == name else None
