import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import get_completion_class

from jobs import cli
from pipeline.errors import (
    InputError,
    JobError,
    ModelError,
    NotFoundError,
    PipelineError,
    RefusedError,
    SpecError,
    TryAgain,
)

ROOT = Path(__file__).parents[2]
MAIN = "from jobs.cli import main; main()"


def spawn(code, environment, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)


def test_the_commands_are_listed_in_the_order_of_a_jobs_life(run):
    result = run("--help")
    assert result.exit_code == 0
    listing = result.output.partition("Commands:\n")[2].partition("\n\n")[0]
    names = [line.split()[0] for line in listing.splitlines()]
    assert " ".join(names) == (
        "submit run-batch jobs status results report ui export compare sql pause resume cancel retry schedule "
        "scale-hint profile bench up worker dispatcher purge migrate doctor completion"
    )


def test_the_help_ends_with_five_examples(run):
    examples = run("--help").output.partition("Examples:\n")[2]
    assert examples.count("  pipeline ") == 5
    assert '  pipeline submit reviews.parquet --model smollm2-135m --prompt "Summarise: {review}"\n' in examples


def commands(name, command):
    """The command itself, or all of its group, by their whole names."""
    if not isinstance(command, click.Group):
        return {name: command}
    return {f"{name} {each}": found for each, found in command.commands.items() if not found.hidden}


EXAMPLED = {
    whole: command for name in cli.COMMANDS for whole, command in commands(name, cli.LazyCommand(name).load()).items()
}


@pytest.mark.parametrize("name", sorted(EXAMPLED.keys() - {"worker alive"}))
def test_the_help_of_a_command_shows_an_example_that_makes_sense(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = re.findall("^ +pipeline (.*)", EXAMPLED[name].help.replace("\\\n", " "), re.MULTILINE)
    assert shown, "there is none"
    for line in shown:
        words = shlex.split(line.partition(" >> ")[0].partition(" | ")[0])
        before = name.split()
        assert words[: len(before)] == before
        EXAMPLED[name].make_context(before[-1], words[len(before) :])


def test_a_shell_completes_commands_flags_and_the_names_of_jobs(run, desk, monkeypatch):
    desk.running("night")
    desk.done("moods")
    monkeypatch.setenv("PIPELINE_HOME", str(desk.home))
    shell = get_completion_class("bash")(cli.cli, {}, "pipeline", "_PIPELINE_COMPLETE")

    def completed(*words):
        return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]

    assert run("completion", "bash").output == shell.source() + "\n"
    assert completed("res") == ["results", "resume"]
    assert completed("submit", "--max") == ["--max-tokens"]
    assert completed("status", "") == ["moods", "night"]
    assert completed("status", "moo") == ["moods"]


def test_a_shell_that_completes_leaves_databases_as_they_are(home, desk, monkeypatch, tmp_path):
    shell = get_completion_class("bash")(cli.cli, {}, "pipeline", "_PIPELINE_COMPLETE")
    monkeypatch.setenv("PIPELINE_HOME", str(tmp_path / "new"))
    assert shell.get_completions(["status"], "") == []
    assert not (tmp_path / "new").exists()
    desk.running("night")
    with sqlite3.connect(home / "pipeline.db") as old:
        old.execute("UPDATE alembic_version SET version_num = '0001'")
    monkeypatch.setenv("PIPELINE_HOME", str(home))
    assert [item.value for item in shell.get_completions(["status"], "")] == ["night"]
    assert old.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
    old.close()


LOOKING = {
    "jobs": 0,
    "jobs --json": 0,
    "status": 3,
    "report --output a.html": 3,
    "results last": 3,
    "export last --output a.csv": 3,
    "compare one other": 3,
    "sql 'select 1'": 3,
    "cancel last": 3,
    "pause last": 3,
    "purge --older-than 1d --yes": 3,
    "doctor --quick": 0,
}


@pytest.mark.parametrize("command", LOOKING)
def test_whoever_only_looks_makes_nothing(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "new"
    done = run(*shlex.split(command), PIPELINE_HOME="new")
    assert done.exit_code == LOOKING[command], done.output
    assert not home.exists()
    if LOOKING[command]:
        assert done.stderr == (
            f"Error: There are no jobs yet in {home}/pipeline.db. `pipeline submit --help` tells how to begin.\n"
        )


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_list_says_of_a_command_what_the_command_says_of_itself(name):
    command = cli.LazyCommand(name).load()
    assert command.name == name
    assert command.get_short_help_str(limit=1000) == cli.COMMANDS[name]
    assert len(cli.COMMANDS[name]) <= 60, "longer ones are cut off in the list"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: pipeline {name} ")


def test_version(run):
    result = run("--version")
    assert (result.exit_code, result.output) == (0, "pipeline 0.1.0\n")


def test_an_unknown_command_is_told_the_nearest(run):
    result = run("cancle")
    assert result.exit_code == 2
    assert "No such command 'cancle'. Did you mean 'cancel'?" in result.stderr


@pytest.fixture
def failing(monkeypatch):
    """Lets `pipeline jobs` raise an error."""

    def fail_with(error):
        @click.command("jobs")
        def broken():
            raise error

        monkeypatch.setattr("jobs.jobs.jobs", broken)

    return fail_with


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SpecError("No."), 2),
        (NotFoundError("No."), 3),
        (RefusedError("No."), 4),
        (TryAgain("No."), 75),
        (InputError("No."), 1),
        (ModelError("No."), 1),
        (JobError("No."), 1),
        (PipelineError("No."), 1),
    ],
)
def test_errors_speak_and_set_the_exit_status(run, failing, error, status):
    failing(error)
    result = run("jobs")
    assert (result.exit_code, result.stdout, result.stderr) == (status, "", "Error: No.\n")


def test_ctrl_c_is_quiet(run, failing):
    failing(KeyboardInterrupt())
    result = run("jobs")
    assert (result.exit_code, result.output) == (130, "")


def test_ctrl_c_amid_the_first_imports_shows_no_traceback(environment):
    amid = (
        "import os, signal, sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Finder(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'jobs.cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from jobs.__main__ import main; main()"
    )
    result = spawn(amid, environment, "jobs")
    assert (result.returncode, result.stderr) == (-signal.SIGINT, "")


def test_ctrl_c_once_more_while_it_ends_shows_no_traceback(environment):
    twice = (
        "import atexit, os, signal, jobs.jobs\n"
        "def interrupt(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        "atexit.register(interrupt)\n"
        "jobs.jobs.existing_database = interrupt\n"
    )
    result = spawn(twice + MAIN, environment, "jobs")
    assert (result.returncode, result.stderr) == (-signal.SIGINT, "")


def test_settings_that_make_no_sense_are_told(run):
    result = run("jobs", PIPELINE_SHARD_ROWS="many")
    assert result.exit_code == 2
    assert result.stderr == "Error: PIPELINE_SHARD_ROWS is 'many'; it must be a whole number of 1 or more.\n"


def test_an_error_of_a_real_process_has_no_traceback(environment, home):
    (home / "pipeline.db").write_text("This is a letter, not a database, and it is long enough to be looked at." * 20)
    result = spawn(MAIN, environment, "jobs")
    assert result.returncode == 1
    assert result.stderr == (
        f"Error: {home / 'pipeline.db'} is not a database. Move the file away, or set PIPELINE_DATABASE_URL to another "
        "place.\n"
    )


def test_a_fault_of_the_program_shows_its_traceback_and_asks_for_a_report(environment):
    broken = "import jobs.jobs; jobs.jobs.existing_database = lambda settings: 1 / 0; "
    result = spawn(broken + MAIN, environment, "jobs")
    assert result.returncode == 1
    assert "ZeroDivisionError: division by zero" in result.stderr
    assert result.stderr.endswith(
        "This is a fault of pipeline itself, not yours. Please report it with the lines above.\n"
    )


@pytest.mark.parametrize("arguments", ["jobs", "results last --format csv", "results last --format parquet"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(desk, environment, arguments):
    desk.done("night")
    unread, written = os.pipe()
    os.close(unread)
    command = [sys.executable, "-c", MAIN, *arguments.split()]
    process = subprocess.run(command, env=environment, stdout=written, stderr=subprocess.PIPE, text=True)
    os.close(written)
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.parametrize(
    ("role", "what"),
    [
        (["dispatcher"], "A dispatcher"),
        (["worker", "tokenizer"], "A tokenizer"),
        (["worker", "gpu", "--device", "cpu"], "A GPU worker on cpu"),
    ],
)
def test_a_role_says_that_it_starts_and_what_it_lacks(run, role, what):
    result = run(*role)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{what} is starting; `pipeline status` shows it once it lives.\n")
    assert "PIPELINE_BROKER_URL is not set" in result.stderr
    assert run("worker", "alive").exit_code == 1
