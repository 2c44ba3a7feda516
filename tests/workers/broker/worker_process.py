"""Run as a program: a worker whose task tells when it begins and ends, which it does not while a file is there. Silence
of a second counts as a dead broker."""

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from workers.broker.app import ANSWER, make_app
from workers.broker.celery_worker import Listener, run_prefork, run_solo


class Desk:
    def __init__(self, hold: Path) -> None:
        self.hold = hold

    def receive(self, job_id: str, batch_no: int, payload: bytes | None) -> None:
        tell(f"begin {batch_no}")
        if payload == b"die":
            os._exit(9)
        while self.hold.exists():
            time.sleep(0.01)
        tell(f"end {batch_no}")


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def telling(event: str) -> Callable[[], None]:
    return lambda: tell(f"{event} {os.getpid()}")


def main(url: str, pool: str, hold: str) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    app = make_app(url, silence_s=1.0)
    app.task(name=ANSWER)(Desk(Path(hold)).receive)
    listener, stop = Listener(telling("ready"), lambda error: tell("lost")), telling("stop")
    if pool == "solo":
        return run_solo(app, "gpu", listener, on_stop=stop)
    return run_prefork(app, "gpu", listener, 2, on_child_start=telling("child"), on_stop=stop)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
