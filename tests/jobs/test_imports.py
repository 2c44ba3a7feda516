"""What a command imports, which is most of what a short one takes."""

import json
import subprocess

import pytest

from tests.jobs.conftest import BROKER, COMMAND

HEAVY = {"torch", "transformers", "pyarrow", "alembic", "tokenizers"}
NOT_FOR_HELP = HEAVY | {"sqlalchemy", "pydantic", "rich", "yaml", "filelock", "numpy"}
TELLING = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr)); "


def imported(environment, *arguments):
    """Top names of all modules that the command has imported when it is through."""
    python, flag, code = COMMAND
    command = [python, flag, TELLING + code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def test_help_imports_nothing_heavy(environment):
    assert imported(environment, "--help") & NOT_FOR_HELP == set()


@pytest.mark.parametrize("arguments", [["status"], ["jobs"]])
def test_asking_imports_no_model_and_no_tables(desk, environment, arguments):
    desk.done("night")
    names = imported(environment, *arguments)
    assert "sqlalchemy" in names
    assert names & (HEAVY | {"rich"}) == set()


def test_a_submission_to_a_fleet_imports_torch_for_a_model_that_is_new_alone(submit, environment, rows, tiny_model):
    assert submit(**BROKER).exit_code == 0
    again = ("submit", str(rows), "--model", str(tiny_model), "--prompt", "Say more: {text}")
    names = imported(environment | BROKER, *again)
    assert "tokenizers" in names
    assert names & {"torch", "transformers"} == set()
