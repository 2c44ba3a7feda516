"""What a GPU worker keeps warm: the models that it loaded last, and what answers the latest jobs with them."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from pipeline.answering import Answering, make_engine
from pipeline.encoding import Encoding
from pipeline.errors import ModelError, RefusedError
from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.inference.digest_cache import DigestCache
from pipeline.inference.engine import Engine
from pipeline.means import Means, load_means
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database
from pipeline.store.lookup import find_shard, read_job
from pipeline.store.records import JobRecord

_LOG = logging.getLogger(__name__)
#: Models in memory at once: two jobs that take turns on one worker need not load theirs anew each time.
_MODELS = 2
_JOBS = 8


@dataclass(frozen=True, slots=True)
class _Warm:
    means: Means
    engine: Engine


class Loaded:
    """Belongs to the thread that computes. It loads a model for a job within `loading`, which tells of both."""

    def __init__(
        self, database: Database, settings: Settings, loading: Callable[[str, str], AbstractContextManager[None]]
    ) -> None:
        self._database, self._settings, self._loading = database, settings, loading
        self._digests = DigestCache(settings.home, partial(_LOG.warning, "%s"))
        self._models: OrderedDict[tuple[object, ...], _Warm] = OrderedDict()
        self._jobs: OrderedDict[str, Answering] = OrderedDict()

    def engines(self) -> list[Engine]:
        """Of the models in memory; may be asked by any thread."""
        return [model.engine for model in list(self._models.values())]

    def answering(self, job_id: str) -> Answering:
        """Raises JobError where this machine cannot answer the job."""
        if job_id not in self._jobs:
            self._jobs[job_id] = self._prepare(read_job(self._database, job_id))
            if len(self._jobs) > _JOBS:
                self._jobs.popitem(last=False)
        self._jobs.move_to_end(job_id)
        return self._jobs[job_id]

    def _prepare(self, job: JobRecord) -> Answering:
        spec = JobSpec.model_validate_json(job.spec_json)
        warm = self._model(job, spec)
        shard_of = partial(find_shard, self._database, job.id)
        context = job.context or warm.means.model.context
        encoding = Encoding(job, spec, warm.means.vocabulary, context, warm.means.costs, self._settings, shard_of(0))
        return Answering(warm.engine, encoding, shard_of)

    def _model(self, job: JobRecord, spec: JobSpec) -> _Warm:
        checkpoint = resolve_checkpoint(spec.model, spec.adapter, self._digests)
        if not checkpoint.is_of(job.model_digest):
            raise RefusedError(
                f"The model {spec.model} on this machine is not the one that {job.name} was submitted with: its files "
                "differ. Put the same files on every machine, then resume the job."
            )
        # To embed, a model is loaded that need not be able to write.
        key = (checkpoint.digest, spec.dtype, spec.deterministic, spec.trust_remote_code, spec.embeds)
        if key not in self._models:
            if len(self._models) == _MODELS:
                self._forget(self._models.popitem(last=False)[1])
            with self._loading(job.id, spec.model):
                means = self._means(spec, checkpoint)
            self._models[key] = _Warm(means, make_engine(means, self._settings))
        self._models.move_to_end(key)
        return self._models[key]

    def _means(self, spec: JobSpec, checkpoint: Checkpoint) -> Means:
        """What fits alone may not fit beside what is loaded already."""
        try:
            return load_means(spec, checkpoint, self._settings)
        except ModelError:
            if not self._models:
                raise
        while self._models:
            self._forget(self._models.popitem(last=False)[1])
        return load_means(spec, checkpoint, self._settings)

    def _forget(self, model: _Warm) -> None:
        """Before the next one is loaded, so that its memory is free."""
        for job_id in [job_id for job_id, answering in self._jobs.items() if answering.engine is model.engine]:
            del self._jobs[job_id]
