"""What `pipeline doctor` looks at. A check tells what it found, or raises a PipelineError that tells how to mend it."""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.fleet import Fleet
from jobs.tables import size
from pipeline.errors import JobError, NotFoundError, PipelineError
from pipeline.inference.checkpoint import SMALL_MODEL, resolve_checkpoint
from pipeline.settings import Settings
from pipeline.store.database import Database, existing_database
from pipeline.store.records import Role
from pipeline.store.registry import Registry
from pipeline.store.schema import SCHEMA_VERSION
from pipeline.store.transactions import database_name

_GIB = 1 << 30
_OLDEST_PYTHON = (3, 11)
#: Shards and the database of a job of a million short rows fit in it.
_LEAST_DISK = 1 * _GIB
#: What torch and the small model take.
_LEAST_MEMORY = 2 * _GIB
#: Seconds by which two clocks may differ. Leases hang on the database's alone.
_MOST_SKEW_S = 5.0
_WORKERS = (Role.DISPATCHER, Role.TOKENIZER, Role.GPU)


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    ok: bool
    text: str  #: what was found, or how to mend it


def examine(settings: Settings, *, quick: bool) -> list[Finding]:
    """Takes the seconds that torch needs to be imported; unless it is to be quick, also those of a small job."""
    checks = _CHECKS if settings.broker_url is None else _CHECKS | {"broker": _broker}
    checks = checks if quick else checks | {"answers": _answers}
    return [_find(name, check, settings) for name, check in checks.items()]


def _find(name: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(name, True, check(settings))
    except PipelineError as error:
        return Finding(name, False, str(error))


def _python(settings: Settings) -> str:
    if sys.version_info < _OLDEST_PYTHON:
        raise JobError(f"Python is {platform.python_version()}; install 3.11 or newer.")
    return platform.python_version()


def _packages(settings: Settings) -> str:
    wanted = [line for line in importlib.metadata.requires("pipeline") or [] if "extra ==" not in line]
    faults = [fault for fault in map(_fault, wanted) if fault is not None]
    if faults:
        raise JobError(f"{'; '.join(faults)}. `pip install --upgrade pipeline` brings what is needed.")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in map(_name, wanted))


def _fault(requirement: str) -> str | None:
    """Why a requirement such as `click>=8.5,<9` is not met. Knows no other comparison, as no other is used."""
    name = _name(requirement)
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} is not installed"
    for comparison, bound in re.findall(r"(>=|<)\s*([\d.]+)", requirement):
        if (_numbers(installed) >= _numbers(bound)) != (comparison == ">="):
            return f"{name} is {installed}, but {comparison}{bound} is needed"
    return None


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _numbers(version: str) -> list[int]:
    """Without final zeros, so that 2.0 is 2."""
    numbers = [int(number) for number in re.split(r"[^\d.]", version, maxsplit=1)[0].split(".") if number]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def _home(settings: Settings) -> str:
    home = settings.home.absolute()
    if home.exists():
        return str(settings.make_home())
    replace(settings, home=_nearest(home)).make_home()
    return f"{home}, which the first job makes"


def _nearest(directory: Path) -> Path:
    """It, or the one above it that is there."""
    return next(path for path in (directory, *directory.parents) if path.is_dir())


@contextmanager
def _database_there(settings: Settings) -> Iterator[Database | None]:
    """None where the first job is to make it."""
    try:
        database = existing_database(settings)
    except NotFoundError:
        yield None
        return
    try:
        yield database
    finally:
        database.dispose()


def _database(settings: Settings) -> str:
    with _database_there(settings) as database:
        if database is None:
            return "none yet; the first job makes it"
        return f"{database_name(database)}, version {SCHEMA_VERSION}"


def _clock(settings: Settings) -> str:
    with _database_there(settings) as database:
        ahead = 0.0 if database is None else time.time() - Registry(database).now()
    if abs(ahead) > _MOST_SKEW_S:
        raise JobError(
            f"This machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the database's, and "
            "the times that it writes into logs with it. Have both set by NTP."
        )
    return "as the database's"


def _disk(settings: Settings) -> str:
    home = settings.home.absolute()
    free = shutil.disk_usage(_nearest(home)).free
    if free < _LEAST_DISK:
        raise JobError(f"Only {_gib(free)} are free where {home} lies; {_gib(_LEAST_DISK)} should be. Free some space.")
    return f"{_gib(free)} free"


def _memory(settings: Settings) -> str:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if whole < _LEAST_MEMORY:
        raise JobError(
            f"The machine has {_gib(whole)}; even the small model needs {_gib(_LEAST_MEMORY)}. Use a larger one."
        )
    return _gib(whole)


def _model(settings: Settings) -> str:
    checkpoint = resolve_checkpoint(SMALL_MODEL)
    return f"{SMALL_MODEL} in {Path(checkpoint.source, checkpoint.gguf_file or '')}"


def _device(settings: Settings) -> str:
    # torch takes two seconds that only this command has to spend.
    from pipeline.inference.device import choose_device, usual_dtypes
    from pipeline.inference.kernels.selection import choose_kernel

    device = choose_device(settings.device)
    dtypes = usual_dtypes(device)
    kernel, why, *_ = choose_kernel(device, dtypes[0])
    names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    return f"{device}, {names}, attention by {kernel} ({why})"


def _sharing(settings: Settings) -> str:
    from pipeline.calibration import kept

    found = [f"{known.model} on {known.device} ({known.measured})" for known in kept(settings.home)]
    return f"measured: {'; '.join(found)}" if found else "estimated; measure with pipeline bench --calibrate --model M"


def _broker(settings: Settings) -> str:
    # Celery takes long to import, which only a fleet's machine has to spend.
    from workers.broker.doorbell import Doorbell

    doorbell = Doorbell(settings.required_broker_url())
    if faults := doorbell.check():
        raise JobError(" ".join(faults))
    used, allowed = doorbell.memory()
    return f"reached, {size(used)} of {size(allowed)} used"


def _fleet(settings: Settings) -> str:
    with _database_there(settings) as database:
        fleet = Fleet((), 0.0) if database is None else Fleet.seen(database)
    if failed := [worker for role in _WORKERS for worker in fleet.failed(role)]:
        told = " ".join(f"The {worker.role} worker on {worker.host} has given up: {worker.note}" for worker in failed)
        raise JobError(told)
    if not fleet.workers and settings.broker_url is None:
        return "none; jobs are answered by the command that submits them"
    return ", ".join(f"{fleet.processes(role)} {role}" for role in _WORKERS)


def _answers(settings: Settings) -> str:
    # It computes, and so imports torch.
    from jobs.trial import trial

    return trial(settings)


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / _GIB:.1f} GiB"


_CHECKS: dict[str, Callable[[Settings], str]] = {
    "python": _python,
    "packages": _packages,
    "home": _home,
    "database": _database,
    "clock": _clock,
    "disk": _disk,
    "memory": _memory,
    "model": _model,
    "device": _device,
    "sharing": _sharing,
    "fleet": _fleet,
}
