"""Run as a program: a worker whose task tells when it begins and ends. Silence of a second counts as a dead broker."""

import logging
import os
import sys
import time
from collections.abc import Callable

from workers.broker.app import ANSWER, make_app
from workers.broker.celery_worker import Listener, run_prefork, run_solo


class Desk:
    def __init__(self, task_s: float) -> None:
        self.task_s = task_s

    def receive(self, job_id: str, batch_no: int, payload: bytes | None) -> None:
        tell(f"begin {batch_no}")
        if payload == b"die":
            os._exit(9)
        time.sleep(self.task_s)
        tell(f"end {batch_no}")


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def telling(event: str) -> Callable[[], None]:
    return lambda: tell(f"{event} {os.getpid()}")


def main(url: str, pool: str, task_s: str) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    app = make_app(url, silence_s=1.0)
    app.task(name=ANSWER)(Desk(float(task_s)).receive)
    listener, stop = Listener(telling("ready"), lambda error: tell("lost")), telling("stop")
    if pool == "solo":
        return run_solo(app, "gpu", listener, on_stop=stop)
    return run_prefork(app, "gpu", listener, 2, on_child_start=telling("child"), on_stop=stop)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
