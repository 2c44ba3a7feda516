"""The tokenizer workers: a pool of processes without torch that turn shards into batches, and lay their prompts by."""

import json
import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from pipeline.buckets import budget
from pipeline.encoding import Encoded, Encoding
from pipeline.errors import JobError, PipelineError, TryAgain
from pipeline.ingest import token_files
from pipeline.ingest.places import fetched, join
from pipeline.messages import pack
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, open_database
from pipeline.store.ledger import Ledger
from pipeline.store.lookup import find_shard, read_job
from pipeline.store.queries import recent_rate
from pipeline.store.records import JobRecord, Role, ShardClaim, WorkerState
from pipeline.store.registry import News, Registry
from workers.broker.app import ENCODE, make_app
from workers.broker.celery_worker import Listener, run_prefork
from workers.contact import Contact
from workers.heartbeat import Heartbeat
from workers.lease import kept
from workers.logs import about
from workers.metrics.encoded import EncodedMetrics
from workers.metrics.endpoint import new_registry, served
from workers.prices import expected_costs

_LOG = logging.getLogger(__name__)
#: Jobs whose tokenizer and template a process keeps ready.
_JOBS = 8
#: Seconds of rest after what the moment refused, at first and at most: whoever asks this process to stop waits as long.
_REST_S, _LONGEST_S = 1.0, 10.0


class TokenizerDesk:
    """One process of the pool. Its connections to the database are its own."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        owner: str,
        on_encoded: Callable[[Encoded], None] = lambda encoded: None,
        on_trouble: Callable[[str], None] = lambda trouble: None,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._database, self._settings, self._owner = database, settings, owner
        self._on_encoded, self._on_trouble = on_encoded, on_trouble
        self._rest, self._rest_s = rest, _REST_S
        self._ledger = Ledger(database)
        self._encodings: OrderedDict[str, Encoding] = OrderedDict()

    def encode(self, job_id: str, shard_no: int) -> None:
        """A message may come twice or late: what the ledger does not give is dropped."""
        with about(worker=self._owner, job=job_id, shard=shard_no):
            claim = self._claim(job_id, shard_no)
            if claim is not None:
                self._encode_claimed(claim)

    def _encode_claimed(self, claim: ShardClaim) -> None:
        job_id, shard_no = claim.job_id, claim.shard_no
        try:
            with kept(self._ledger.renew_shard, claim, self._settings.lease_s):
                self._encode(claim)
        except PipelineError as error:
            _LOG.warning("Shard %d of job %s is given back: %s", shard_no, job_id, error)
            self._give_up(claim, error)
            if isinstance(error, TryAgain):
                self._rest_from(error)
        except Exception as fault:
            _LOG.exception("Shard %d of job %s met a fault of the program.", shard_no, job_id)
            kind = type(fault).__name__
            self._give_up(claim, JobError(f"Its shard {shard_no} met a fault of the program itself: {kind}."))

    def _rest_from(self, error: TryAgain) -> None:
        """A full disk stays full for long, and each try costs a whole shard. The shard is free meanwhile for others."""
        self._on_trouble(str(error))
        self._rest(self._rest_s)
        self._rest_s = min(2 * self._rest_s, _LONGEST_S)

    def _claim(self, job_id: str, shard_no: int) -> ShardClaim | None:
        try:
            return self._ledger.claim_shard(job_id, shard_no, self._owner, self._settings.lease_s)
        except PipelineError as error:
            _LOG.warning("Shard %d of job %s was not claimed: %s", shard_no, job_id, error)
            return None

    def _encode(self, claim: ShardClaim) -> None:
        job = read_job(self._database, claim.job_id)
        encoding = self._encoding(job)
        shard = find_shard(self._database, job.id, claim.shard_no)
        within = budget(self._settings, recent_rate(self._database, job), encoding.samples)
        encoded = encoding.shard(shard, within, self._ledger)
        place = join(self._settings.shard_directory(job.id), token_files.name(claim.shard_no, claim.fence))
        token_files.write(place, [pack(encoding.prefix, prompts) for prompts in encoded.prompts])
        self._ledger.record_encoding(
            job.id,
            claim.shard_no,
            encoded.planned,
            encoded.failures,
            encoded.seconds,
            tokens=place,
            n_cut=encoded.n_cut,
            n_neutralised=encoded.n_neutralised,
            copies=encoded.copies,
            followers=encoded.followers,
            prompt_tokens=encoded.prompt_tokens,
            planned_tokens=encoded.planned_tokens,
        )
        self._rest_s = _REST_S
        self._on_encoded(encoded)

    def _encoding(self, job: JobRecord) -> Encoding:
        if job.id not in self._encodings:
            spec = JobSpec.model_validate_json(job.spec_json)
            if job.tokenizer is None or job.context is None:
                raise JobError(f"{job.name} was not submitted to a fleet. Go on with it: pipeline resume {job.name}")
            vocabulary = Vocabulary(fetched(job.tokenizer, self._settings.home / "tokenizers"))
            first = find_shard(self._database, job.id, 0)
            costs = expected_costs(spec, Registry(self._database))
            self._encodings[job.id] = Encoding(job, spec, vocabulary, job.context, costs, self._settings, first)
        self._encodings.move_to_end(job.id)
        while len(self._encodings) > _JOBS:
            self._encodings.popitem(last=False)
        return self._encodings[job.id]

    def _give_up(self, claim: ShardClaim, error: PipelineError) -> None:
        """What is the job's fault stops the job, and says why; what is the moment's is tried again. A job that ended
        meanwhile, or is gone, needs neither."""
        try:
            with suppress(JobError):
                if isinstance(error, JobError):
                    self._ledger.pause(claim.job_id, f"On {self._owner.partition('/')[0]}: {error}")
            self._ledger.give_back_shard(claim)
        except TryAgain as fault:
            _LOG.warning("The lease of shard %d runs out by itself: %s", claim.shard_no, fault)


def run_tokenizer(settings: Settings, concurrency: int) -> int:
    """The exit status, once it was asked to stop."""
    app = make_app(settings.required_broker_url())
    database = open_database(settings)
    registry = Registry(database)
    worker_id = registry.enter(Role.TOKENIZER, socket.gethostname(), os.getpid())
    news = News(state=WorkerState.BUSY, note=None, facts=json.dumps({"concurrency": concurrency}))
    contact = Contact(settings.required_broker_url())
    heartbeat = Heartbeat(registry, worker_id, lambda: contact.told_in(news))
    # Opened where they are used: connections are not to be shared with the processes of the pool.
    desks: list[TokenizerDesk] = []
    metrics = new_registry()

    def note(trouble: str | None) -> None:
        news["state"], news["note"] = WorkerState.BUSY if trouble is None else WorkerState.BLOCKED, trouble

    encoded = EncodedMetrics(metrics, note)

    def new_desk() -> TokenizerDesk:
        return TokenizerDesk(open_database(settings), settings, worker_id, encoded.tell, encoded.tell_trouble)

    def open_desk() -> None:
        """At the start of each process, or, where the database was away then, when it has something to do."""
        with suppress(PipelineError):
            desks.append(new_desk())

    def encode(job_id: str, shard_no: int) -> None:
        try:
            if not desks:
                desks.append(new_desk())
            desks[0].encode(job_id, shard_no)
        except PipelineError as error:
            _LOG.warning("Shard %d of job %s is left to be sent again: %s", shard_no, job_id, error)

    app.task(name=ENCODE)(encode)
    heartbeat.beat()
    heartbeat.pause_at_forks()
    try:
        with about(worker=worker_id), heartbeat.beating(), encoded.listening(), served(metrics, settings.metrics_port):
            listener = Listener(contact.made, contact.lost)
            return run_prefork(app, "tokenizer", listener, concurrency, on_child_start=open_desk)
    except KeyboardInterrupt:
        _let_go(Ledger(database), worker_id)
        raise


def _let_go(ledger: Ledger, worker_id: str) -> None:
    """What processes held that were killed because somebody did not want to wait for them."""
    try:
        ledger.let_go(worker_id)
    except PipelineError as error:
        _LOG.warning("What this tokenizer held is free when its lease runs out: %s", error)
