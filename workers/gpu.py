"""One device's worker: a process that hears of batches, answers them with a model kept warm, and records the answers.

Started by its supervisor (workers/guard.py), which starts it anew where it dies.
"""

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pipeline.answering import Closed, Witness
from pipeline.errors import ModelError, PipelineError, TryAgain
from pipeline.inference.device import choose_device
from pipeline.inference.vitals import vitals
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.ledger import Ledger
from pipeline.store.records import Role
from pipeline.store.registry import Registry
from workers.broker.app import ANSWER, make_app
from workers.broker.celery_worker import Listener, run_solo
from workers.contact import Contact
from workers.guard import TRY_AGAIN
from workers.hands import Hands
from workers.heartbeat import Heartbeat
from workers.loaded import Loaded
from workers.logs import about, log_to_stderr
from workers.metrics.answered import AnsweredMetrics, DeviceMetrics
from workers.metrics.endpoint import new_registry, served
from workers.tally import Tally
from workers.tracing.traces import traced

_LOG = logging.getLogger(__name__)


def run_gpu(settings: Settings, device: str) -> int:
    """The exit status, once it was asked to stop."""
    asked_by = "PIPELINE_DEVICE" if device == settings.device else "--device"
    settings = replace(settings, device=device)
    database = open_database(settings)
    ledger, registry, tally = Ledger(database), Registry(database), Tally()
    worker_id = registry.enter(Role.GPU, socket.gethostname(), os.getpid(), device)
    tell_device(registry, worker_id, device, asked_by)
    contact = Contact(settings.required_broker_url())
    heartbeat = Heartbeat(registry, worker_id, lambda: contact.told_in(tally.facts()))

    @contextmanager
    def loading(job_id: str, model: str) -> Iterator[None]:
        """Told at once: what a process dies of while it loads is the model, and before and after it is a batch."""
        with tally.loading(job_id, model):
            heartbeat.beat()
            yield
        heartbeat.beat()

    loaded, metrics = Loaded(database, settings, loading), new_registry()
    metrics.register(DeviceMetrics(tally.busy_s, lambda: vitals(loaded.engines(), device)))
    answered = AnsweredMetrics(metrics)
    with (
        about(worker=worker_id),
        heartbeat.beating(),
        served(metrics, settings.metrics_port),
        traced(database, settings, partial(_LOG.warning, "%s")) as traces,
    ):
        hands = Hands(worker_id, ledger, loaded.answering, tally, settings.lease_s, _both(answered, traces))
        app = make_app(settings.required_broker_url())
        app.task(name=ANSWER)(hands.receive)
        with hands.working():
            return run_solo(app, "gpu", Listener(contact.made, contact.lost), on_stop=hands.stop)


def _both(metrics: AnsweredMetrics, traces: Witness) -> Witness:
    def closed(outcome: Closed) -> None:
        if outcome.recorded:
            metrics.count(outcome.completions, outcome.timing)
        traces.closed(outcome)

    return Witness(traces.taken, closed)


def tell_device(registry: Registry, worker_id: str, device: str, asked_by: str) -> None:
    """Of what kind it is, by which tokenizers estimate. Raises ModelError at once: found later, it would look like a
    fault of the first job that comes along. Either way, what earlier workers on the device failed of is past."""
    try:
        registry.beat(worker_id, facts=json.dumps({"device_type": choose_device(device, asked_by).type}))
    except ModelError as error:
        registry.fail(worker_id, str(error))
        raise
    finally:
        registry.supersede(worker_id)


def main() -> None:
    """`python -m workers.gpu DEVICE`."""
    try:
        settings = Settings.from_environment()
        log_to_stderr("gpu", settings.log_format)
        sys.exit(run_gpu(settings, sys.argv[1]))
    except PipelineError as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(TRY_AGAIN if isinstance(error, TryAgain) else 1)


if __name__ == "__main__":
    main()
