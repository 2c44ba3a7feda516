"""The dispatcher: a loop that tells the broker what the ledger has to do, and takes back what got lost on the way."""

import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from pipeline.errors import PipelineError, TryAgain
from pipeline.ingest.places import delete
from pipeline.ingest.token_files import TokenFiles, attempts
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.dispatch import Dispatch, Recovered
from pipeline.store.records import Bell, Role, WorkerRecord, WorkerState
from pipeline.store.registry import News, Registry
from workers.broker.doorbell import Doorbell, fullness
from workers.credit import Credit
from workers.heartbeat import Heartbeat
from workers.keys import keys_of
from workers.logs import about
from workers.metrics.endpoint import new_registry, served
from workers.metrics.queued import QueuedMetrics
from workers.process import StopRequest
from workers.submissions import caring
from workers.vigil import Vigil

_LOG = logging.getLogger(__name__)

#: Seconds between two looks at what may be enqueued; recovery, which is dearer, is once a second.
_TICK_S, _RECOVER_S = 0.25, 1.0
#: Workers that said nothing for so long are forgotten.
_FORGET_S = 86_400.0
#: Encoded batches of a job that wait, as a multiple of those under way, before more of its shards are encoded; and at
#: least so many.
_AHEAD, _LEAST_AHEAD = 4, 64


@dataclass(frozen=True, slots=True)
class Sight:
    """What was last seen of the broker; `trouble` says in a sentence why nothing is sent."""

    trouble: str | None = None
    queued: dict[str, int] | None = None
    used: int = 0
    maximum: int = 0

    def as_json(self) -> str:
        return json.dumps({"queued": self.queued, "memory": [self.used, self.maximum]})


class Dispatcher:
    """Several at once are harmless: each batch is enqueued once, whoever does it."""

    def __init__(
        self,
        dispatch: Dispatch,
        registry: Registry,
        doorbell: Doorbell,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatch, self._registry, self._doorbell, self._settings = dispatch, registry, doorbell, settings
        self._clock = clock
        self._tokens, self._credit = TokenFiles(), Credit()
        self._sight, self._told = Sight(), False
        self.recovered = Recovered()  #: all since it started
        self._recovered_at = -math.inf
        self._vigil = Vigil(settings.lease_s, _RECOVER_S)

    def run(self, stopped: Callable[[], bool]) -> None:
        """Until `stopped`, whatever goes wrong on the way: a database or a broker that is away comes back."""
        while not stopped():
            began = self._clock()
            try:
                if began - self._recovered_at >= _RECOVER_S:
                    self._recovered_at = began
                    self._recover()
                if self._sight.trouble is None:
                    self._ring()
            except PipelineError as error:
                self._vigil.fail()
                _LOG.warning("%s", error)
            time.sleep(max(0.0, _TICK_S - (self._clock() - began)))

    def facts(self) -> News:
        """The columns of its sign of life."""
        sight = self._sight
        state = WorkerState.BLOCKED if sight.trouble else WorkerState.BUSY
        return {"state": state, "note": sight.trouble, "facts": sight.as_json()}

    def broker(self) -> tuple[dict[str, int] | None, int]:
        """Messages by queue, and bytes used, as they were last seen."""
        return self._sight.queued, self._sight.used

    def _recover(self) -> None:
        """What expired or was lost is pending again; what is finished is done."""
        self._see(self._look())
        recovered = self._dispatch.recover(self._lost_after_s(), self._vigil.trusts)
        self.recovered += recovered
        if recovered.expired or recovered.split or recovered.dead:
            _LOG.warning("Of workers that died or fell silent: %s", recovered)
        if done := self._dispatch.complete_jobs():
            self._clear_away(done)
        self._registry.sweep(_FORGET_S)

    def _clear_away(self, job_ids: list[str]) -> None:
        for tokens, fence in self._dispatch.token_files(job_ids):
            for place in attempts(tokens, fence):
                with suppress(PipelineError):
                    delete(place)

    def _look(self) -> Sight:
        try:
            queued = self._doorbell.depth()
            used, maximum = self._doorbell.memory()
            full = fullness(used, maximum)
            if full is None:
                self._meet_epoch()
        except TryAgain as error:
            return Sight(str(error))
        return Sight(full, queued, used, maximum)

    def _see(self, sight: Sight) -> None:
        """A broker that answers, and takes nothing, is in trouble all the time: its good looks last for one look."""
        was_well, self._sight = self._sight.trouble is None, sight
        if sight.trouble is not None and not self._told:
            _LOG.warning("Nothing is handed out. %s", sight.trouble)
            self._told = True
        elif sight.trouble is None and was_well and self._told:
            _LOG.warning("The broker can be used again.")
            self._told = False

    def _meet_epoch(self) -> None:
        """A broker that has none lost all that was sent, or is new; whoever gives it one has it sent again."""
        if self._doorbell.epoch() is not None:
            return
        self._doorbell.begin_epoch(uuid4().hex)
        if lost := self._dispatch.lose_all():
            _LOG.warning("The broker has lost its queues; %d messages are sent again.", lost)

    def _lost_after_s(self) -> float:
        """While as many messages are in the broker as were sent, none is lost: workers are just busy."""
        queued = self._sight.queued
        if queued is None:
            return math.inf
        backlog = self._dispatch.backlog()
        whole = queued["gpu"] >= backlog.batches_enqueued and queued["tokenizer"] >= backlog.shards_enqueued
        return math.inf if whole else self._settings.lost_after_s

    def _ring(self) -> None:
        backlog = self._dispatch.backlog()
        alive = self._registry.alive()
        credit = self._credit.left(
            workers=sum(record.role is Role.GPU for record in alive),
            pending=backlog.batches_pending,
            enqueued=backlog.batches_enqueued,
            leased=backlog.batches_leased,
            maximum=self._sight.maximum,
        )
        if credit and backlog.batches_pending:
            self._ring_batches(self._dispatch.enqueue_batches(credit))
        room = 2 * _tokenizers(alive) - backlog.shards_enqueued - backlog.shards_leased
        if backlog.shards_pending and room > 0:
            ahead = max(_LEAST_AHEAD, _AHEAD * (backlog.batches_enqueued + backlog.batches_leased))
            self._ring_shards(self._dispatch.enqueue_shards(room, ahead))

    def _ring_batches(self, bells: list[Bell]) -> None:
        for place, bell in enumerate(bells):
            with about(job=bell.job_id, shard=bell.shard_no, batch=bell.batch_no):
                payload = self._payload(bell)
            try:
                self._credit.sent(self._doorbell.ring_batch(bell.job_id, bell.batch_no, payload))
            except TryAgain as error:
                self._see(Sight(str(error)))
                self._dispatch.unenqueue(bells[place:])
                return

    def _payload(self, bell: Bell) -> bytes | None:
        """None where the worker is to encode the rows again."""
        if bell.tokens is None or bell.part is None:
            return None
        try:
            return self._tokens.message(bell.tokens, bell.part)
        except PipelineError as error:
            _LOG.warning("The prompts of batch %d of job %s cannot be read: %s", bell.batch_no, bell.job_id, error)
            return None

    def _ring_shards(self, shards: list[tuple[str, int]]) -> None:
        for place, (job_id, shard_no) in enumerate(shards):
            try:
                self._doorbell.ring_shard(job_id, shard_no)
            except TryAgain as error:
                self._see(Sight(str(error)))
                self._dispatch.unenqueue_shards(shards[place:])
                return


def _tokenizers(alive: list[WorkerRecord]) -> int:
    """Processes that encode; one is taken to be there even before it has told so."""
    told = [json.loads(record.facts or "{}") for record in alive if record.role is Role.TOKENIZER]
    return max(1, sum(int(facts.get("concurrency", 1)) for facts in told))


def run_dispatcher(settings: Settings) -> int:
    """The exit status, once it was asked to stop."""
    database = open_database(settings)
    registry = Registry(database)
    dispatcher = Dispatcher(
        Dispatch(database, partial(keys_of, database)), registry, Doorbell(settings.required_broker_url()), settings
    )
    metrics = new_registry()
    metrics.register(QueuedMetrics(database, lambda: dispatcher.recovered, dispatcher.broker))
    stop = StopRequest(lambda: None)
    # Whoever sees its name may ask it to stop.
    with stop.listening():
        worker_id = registry.enter(Role.DISPATCHER, socket.gethostname(), os.getpid())
        beating = Heartbeat(registry, worker_id, dispatcher.facts).beating()
        with about(worker=worker_id), beating, caring(database), served(metrics, settings.metrics_port):
            dispatcher.run(lambda: stop.asked)
    return 0
