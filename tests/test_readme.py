"""Every command in the README and in what goes on with its jobs is run, in this order, in a copy of the examples."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.registry import Registry
from tests.documented import GOING_ON, lines
from tests.redis_server import any_broker, eventually
from tests.warm import Command, running

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TUNING, RESULTS = ((ROOT / "docs" / name).read_text() for name in ("tuning.md", "results.md"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
LINES = [line for path in (ROOT / "README.md", *GOING_ON) for line in lines(path)]
#: Done jobs are not cancelled: the README says so.
REFUSED = {"pipeline cancel summaries": 4}
ROWS = 80
#: What runs until it is asked to stop: the first finds a broker of its own, the others are told of one.
FLEET = "pipeline up"
ROLES = ("pipeline dispatcher", "pipeline worker")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", directory / "examples")
    # The first rows have all kinds: null, too long, of another script.
    reviews = directory / "examples/reviews.parquet"
    pq.write_table(pq.read_table(reviews).slice(0, ROWS), reviews)
    return directory


def test_the_readme_has_commands():
    assert LINES[0] == "make demo"
    assert sum(line.startswith("pipeline ") for line in LINES) > 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with any_broker(tmp_path_factory.mktemp("redis")) as url:
        yield url


@contextmanager
def lasting(place: Path, line: str, **variables: str) -> Iterator[None]:
    """From when it has told of itself until it ended well, as asked."""
    with running(_command(place, line, **variables)) as process:
        assert eventually(lambda: process.poll() is not None or _is_seen(place, process.pid), within_s=120)
        assert process.poll() is None, process.errors
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0, process.errors


@pytest.fixture(scope="module")
def fleet(broker: str) -> Iterator[ExitStack]:
    """What goes on while later commands are run."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("pipeline ")])
def test_a_command_does_what_it_says(place, line, fleet, broker):
    if line.startswith((FLEET, *ROLES)):
        named = {} if line == FLEET else {"PIPELINE_BROKER_URL": broker}
        fleet.enter_context(lasting(place, line, **named))
    else:
        with running(_command(place, line)) as done:
            assert done.wait(timeout=240) == REFUSED.get(line.strip(), 0), done.errors
            assert "Traceback" not in done.errors


def _command(place: Path, line: str, **variables: str) -> Command:
    return Command(tuple(shlex.split(line)[1:]), ENVIRONMENT | variables, place)


def _is_seen(place: Path, pid: int) -> bool:
    """Whether the process, or one that it started, has told of itself."""
    registry = Registry(open_database(Settings(home=place, database_url=f"sqlite:///{place}/.pipeline/pipeline.db")))
    return any(record.pid in _family(pid) for record in registry.alive())


def _family(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*(_family(int(child)) for child in children))


def test_the_files_that_they_write_are_there(place):
    assert (place / "summaries.parquet").stat().st_size > 0
    assert (place / "demo.csv").read_text().count("positive") > ROWS // 4


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_make_knows_its_targets(line):
    done = subprocess.run(["make", "-n", *shlex.split(line)[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_make_demo_is_the_command_that_the_readme_shows():
    printed = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = next(line for line in LINES if line.startswith("pipeline submit"))
    assert " ".join(shown.split()) in " ".join(printed.replace("\\\n", " ").split())


def test_the_settings_that_it_lists_are_those_that_are_read():
    source = (ROOT / "pipeline/settings.py").read_text()
    assert set(re.findall(r"PIPELINE_[A-Z_]+", source)) - {"PIPELINE_"} == set(re.findall(r"PIPELINE_[A-Z_]+", TUNING))


def test_the_exit_statuses_that_it_lists_are_those_that_are_used():
    source = (ROOT / "jobs/exit_codes.py").read_text()
    assert re.findall(r"= (\d+)", source) == re.findall(r"^\| (\d+) \|", README, re.MULTILINE)


def test_the_result_columns_that_it_lists_are_those_of_the_table():
    from pipeline.store.schema import results

    listed = {
        name for cell in re.findall(r"^\| (`.*?) \|", RESULTS, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert listed == {column.name for column in results.c}
