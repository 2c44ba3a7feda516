import errno
import json
import re
import sqlite3
import tempfile
import time

import pytest

from jobs import checks, trial
from pipeline.errors import JobError
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.queries import list_jobs
from pipeline.store.records import Role
from pipeline.store.registry import Registry
from tests.redis_server import any_broker

NAMES = ["python", "packages", "home", "database", "clock", "disk", "memory", "model", "device", "sharing", "fleet"]


def test_a_healthy_machine(run, home):
    run("migrate")
    result = run("doctor", "--quick")
    assert result.exit_code == 0
    lines = dict(line.removeprefix("ok    ").split(maxsplit=1) for line in result.stdout.splitlines())
    assert list(lines) == NAMES
    assert lines["home"] == str(home)
    assert lines["database"].startswith(f"{home / 'pipeline.db'}, version ")
    assert "sqlalchemy 2." in lines["packages"]
    assert lines["model"].startswith("smollm2-135m in ")
    assert re.fullmatch(r"(cpu, float32( or bfloat16)?|cuda:0, bfloat16), attention by .+ \(.+\)", lines["device"])
    assert lines["sharing"] == "estimated; measure with pipeline bench --calibrate --model M"


def test_a_machine_on_which_no_job_ever_was(run, tmp_path):
    result = run("doctor", "--quick", PIPELINE_HOME=str(tmp_path / "new/home"))
    lines = dict(line.removeprefix("ok    ").split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["home"] == f"{tmp_path}/new/home, which the first job makes"
    assert lines["database"] == "none yet; the first job makes it"
    assert lines["clock"] == "as the database's"
    assert lines["fleet"] == "none; jobs are answered by the command that submits them"


def test_json_and_a_job_whose_answers_are_known(run, home):
    told = json.loads(run("doctor", "--json").stdout)
    assert told["ok"] is True
    assert [check["name"] for check in told["checks"]] == [*NAMES, "answers"]
    assert all(check["ok"] for check in told["checks"])
    assert told["checks"][-1]["text"] == "2 rows answered by smollm2-135m, both right"
    assert list_jobs(open_database(Settings.from_environment({"PIPELINE_HOME": str(home)}))) == []


def faults(result):
    """Name -> how to mend it, of a doctor who is not content."""
    assert result.exit_code == 1
    lines = [line.removeprefix("MEND  ") for line in result.stdout.splitlines() if line.startswith("MEND  ")]
    return {line[:10].strip(): line[10:] for line in lines}


def test_a_device_that_is_not_there(run):
    for device in ("cuda:99", "toaster"):
        assert faults(run("doctor", "--quick", PIPELINE_DEVICE=device))["device"].startswith(
            f"PIPELINE_DEVICE is {device}, which cannot be used here. Set it to c"
        )


def test_a_home_and_a_database_that_cannot_be(run, tmp_path):
    (tmp_path / "file").touch()
    told = faults(run("doctor", "--quick", PIPELINE_HOME=str(tmp_path / "file")))
    assert told["home"] == (
        f"The directory {tmp_path / 'file'} cannot be written to: File exists. "
        "Set PIPELINE_HOME to a directory that you may write to."
    )
    assert "Set PIPELINE_HOME or PIPELINE_DATABASE_URL to a place that you may write to." in told["database"]


def test_a_database_of_a_newer_program(run, home):
    run("migrate")
    with sqlite3.connect(home / "pipeline.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    assert faults(run("doctor", "--quick"))["database"].endswith("Upgrade the program.")


def test_the_password_of_a_url_is_never_shown(run):
    result = run("doctor", "--quick", PIPELINE_DATABASE_URL="nonsense+driver://me:secret@host/jobs")
    assert faults(result)["database"].startswith("PIPELINE_DATABASE_URL asks for nonsense+driver. ")
    assert "secret" not in result.output


def test_packages_that_are_missing_or_of_the_wrong_version(run, monkeypatch):
    wanted = ["click>=99", "nonesuch", "rich<2,>=1", "sqlalchemy>=2.0", 'pytest>=999; extra == "dev"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
    told = faults(run("doctor", "--quick"))["packages"]
    assert "click is 8." in told
    assert "but >=99 is needed; nonesuch is not installed; rich is " in told
    assert told.endswith("but <2 is needed. `pip install --upgrade pipeline` brings what is needed.")
    assert "sqlalchemy" not in told
    assert "pytest" not in told


@pytest.mark.parametrize(
    ("version", "numbers"), [("2.13.0+cpu", [2, 13]), ("5.24", [5, 24]), ("26.0.0rc1", [26]), ("10.0.1", [10, 0, 1])]
)
def test_versions_are_compared_as_numbers(version, numbers):
    assert checks._numbers(version) == numbers


def test_too_little_disk_and_memory(run, monkeypatch):
    monkeypatch.setattr(checks, "_LEAST_DISK", 1 << 60)
    monkeypatch.setattr(checks, "_LEAST_MEMORY", 1 << 60)
    told = faults(run("doctor", "--quick"))
    assert told["disk"].endswith("1073741824.0 GiB should be. Free some space.")
    assert told["memory"].endswith("even the small model needs 1073741824.0 GiB. Use a larger one.")


@pytest.fixture
def broker(tmp_path):
    with any_broker(tmp_path) as url:
        yield url


def test_a_broker_and_its_fleet(desk, run, broker):
    told = {
        line[6:16].strip(): line[16:]
        for line in run("doctor", "--quick", PIPELINE_BROKER_URL=broker).stdout.splitlines()
    }
    assert re.fullmatch(r"reached, \d+ MiB of 256 MiB used", told["broker"])
    assert told["fleet"] == "0 dispatcher, 0 tokenizer, 0 gpu"
    desk.enter(Role.GPU)
    desk.enter(Role.TOKENIZER, facts='{"concurrency": 4}')
    lines = run("doctor", "--quick", PIPELINE_BROKER_URL=broker).stdout
    assert "0 dispatcher, 4 tokenizer, 1 gpu" in lines


def test_a_broker_that_is_away(run):
    told = faults(run("doctor", "--quick", PIPELINE_BROKER_URL="redis://:secret@127.0.0.1:1"))
    assert told["broker"].startswith("The broker at redis://127.0.0.1:1")
    assert "secret" not in told["broker"]


def test_a_worker_that_has_given_up(desk, run):
    Registry(desk.database).fail(desk.enter(Role.GPU), "The device is gone.")
    assert faults(run("doctor", "--quick"))["fleet"] == "The gpu worker on far has given up: The device is gone."


def test_answers_that_are_wrong(run, monkeypatch):
    monkeypatch.setattr(trial, "_labels", lambda settings: ["Berlin", None])
    told = faults(run("doctor"))["answers"]
    assert told.startswith("smollm2-135m on auto says ['Berlin', None] where ['Paris', 'Berlin'] is right, so no ")


def test_answers_where_no_job_can_be_written_down(desk, monkeypatch):
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(JobError, match="A job of two rows cannot be written down: No space left on device"):
        trial.trial(desk.settings)


@pytest.mark.parametrize(("ahead", "told"), [(90.0, "90 s ahead of"), (-90.0, "90 s behind")])
def test_a_clock_that_is_not_the_database_s(desk, run, monkeypatch, ahead, told):
    monkeypatch.setattr(Registry, "now", lambda registry: time.time() - ahead)
    assert f"This machine's clock is {told} the database's" in faults(run("doctor", "--quick"))["clock"]
