"""A GPU worker whose model answers at once, so that what is left is the fleet's own work; the rest is real."""

import os
import socket
import sys
import time
from dataclasses import dataclass
from functools import partial

from pipeline.answering import Answered
from pipeline.identity import Identities
from pipeline.inference.completions import Finished
from pipeline.messages import Payload
from pipeline.rows import BatchTiming, Completion, Generate, Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import open_database
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, Role
from pipeline.store.registry import Registry
from workers.broker.app import ANSWER, make_app
from workers.broker.celery_worker import Listener, run_solo
from workers.contact import Contact
from workers.hands import Hands
from workers.heartbeat import Heartbeat
from workers.tally import Tally


@dataclass(frozen=True, slots=True)
class Idle:
    """Says `yes` to each row that came by message."""

    identity: Identities

    def run(self, claim: Claim, payload: Payload | None, load_s: float = 0.0) -> Answered:
        if payload is None:
            sys.exit("A message came without its prompts, which this benchmark does not expect.")
        done = [
            Completion(prompt.row_id, prompt.key, Status.OK, "yes", finish_reason="stop", output_tokens=1)
            for prompt in payload.prompts
        ]
        tokens = sum(len(prompt.own_ids) for prompt in payload.prompts)
        timing = BatchTiming(load_s=load_s, prefill_s=1e-6 * tokens, computed_tokens=tokens, output_tokens=len(done))
        finished = Finished(tuple(partial(_same, row) for row in done), timing)
        now = time.time()
        return Answered(claim, "none", finished, (), payload, self.identity, now, now)


def _same(row: Completion) -> Completion:
    return row


def main() -> None:
    settings = Settings.from_environment()
    database = open_database(settings)
    registry, tally = Registry(database), Tally()
    worker_id = registry.enter(Role.GPU, socket.gethostname(), os.getpid(), "none")
    spec = JobSpec(inputs=("rows.parquet",), model="none", prompt="{text}", max_tokens=1)
    idle = Idle(Identities(spec, "none", Generate(spec.max_tokens)))
    hands = Hands(worker_id, Ledger(database), lambda job_id: idle, tally, settings.lease_s)
    app = make_app(settings.required_broker_url())
    app.task(name=ANSWER)(hands.receive)
    with Heartbeat(registry, worker_id, tally.facts).beating(), hands.working():
        contact = Contact(settings.required_broker_url())
        sys.exit(run_solo(app, "gpu", Listener(contact.made, contact.lost), on_stop=hands.stop))


if __name__ == "__main__":
    main()
