"""A whole fleet on one machine: a Redis of its own where none is named, and each role as a child of this process."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.records import Role
from pipeline.store.registry import Registry
from workers.broker.server import private_command
from workers.guard import GIVEN_UP
from workers.readiness import Readiness
from workers.supervisor import Child, Supervisor

#: For the guards of GPU workers, which give these a little less.
_GRACE_S = 110.0
#: Seconds at a second Ctrl-C in which all that is held is given back, and everybody signs off.
_LAST_GRACE_S = 3.0


def run_all(
    settings: Settings,
    tokenizers: int,
    devices: tuple[str, ...],
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
) -> int:
    """The exit status, once it was asked to stop; `on_stop` is called then, and `on_ready` once all roles have signed
    on. Raises JobError where there is no Redis."""
    home = settings.make_home()
    # Once, before several processes find it missing; and what is wrong with it is told once.
    database = open_database(settings)
    awaited = Counter({Role.DISPATCHER: 1, Role.TOKENIZER: 1, Role.GPU: len(devices)})
    readiness = Readiness(Registry(database), awaited, on_ready)
    with _broker(settings, home / "redis") as (server, broker_url):
        environment = os.environ | {"PIPELINE_BROKER_URL": broker_url, "PIPELINE_LOG_FORMAT": settings.log_format}
        commands = [*server, *_roles(tokenizers, devices, settings.metrics_port)]
        children = [Child(name, argv, environment) for name, argv in commands]
        return Supervisor(
            children,
            on_death=_is_started_again,
            on_look=readiness.look,
            on_stop=on_stop,
            grace_s=_GRACE_S,
            last_grace_s=_LAST_GRACE_S,
        ).run()


def _is_started_again(name: str, pid: int, returncode: int) -> bool:
    """Not a GPU worker whose guard has tried what there is to try; `status` tells why."""
    return returncode != GIVEN_UP


@contextmanager
def _broker(settings: Settings, directory: Path) -> Iterator[tuple[list[tuple[str, list[str]]], str]]:
    """What to keep running for it, which is nothing where one is named, and its URL."""
    if settings.broker_url is not None:
        yield [], settings.broker_url
        return
    with private_command(directory) as (argv, url):
        yield [("redis", argv)], url


def _roles(tokenizers: int, devices: tuple[str, ...], port: int | None) -> list[tuple[str, list[str]]]:
    """Metrics are served on `port` and those after it: the dispatcher's, the tokenizers', the GPU workers' in order."""
    command = [sys.executable, "-m", "jobs"]
    roles = [
        ("dispatcher", [*command, "dispatcher"]),
        ("tokenizer", [*command, "worker", "tokenizer", "--concurrency", str(tokenizers)]),
        *((f"gpu {device}", [*command, "worker", "gpu", "--device", device]) for device in devices),
    ]
    if port is not None:
        roles = [(name, [*argv, "--metrics-port", str(port + place)]) for place, (name, argv) in enumerate(roles)]
    dispatcher, tokenizer, *gpus = roles
    # In the order in which they are stopped.
    return [*gpus, tokenizer, dispatcher]
