"""Every command in docs/ does what the text says. They are cheap, so all run in this process."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.cli import COMMANDS, cli
from tests.documented import lines

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", directory / "examples")
    return directory


@pytest.mark.parametrize("line", [line for text in DOCS for line in lines(text)])
def test_a_command_does_what_it_says(place, line, monkeypatch):
    monkeypatch.chdir(place)
    program, *arguments = shlex.split(line)
    assert program == "pipeline"
    done = CliRunner(env={"PIPELINE_HOME": str(place / ".pipeline")}).invoke(cli, arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("text", DOCS, ids=lambda text: text.name)
def test_the_flags_that_a_text_names_are_there(text):
    named = {flag for span in re.findall(r"`([^`\n]+)`", text.read_text()) for flag in re.findall(r"--[a-z-]+", span)}
    runner = CliRunner()
    subcommands = [("schedule", name) for name in ("add", "next", "run-now", "list")]
    told = "".join(
        runner.invoke(cli, [*command, "--help"]).output
        for command in [*((name,) for name in COMMANDS), *subcommands, ("worker", "tokenizer"), ("worker", "gpu")]
    )
    assert {flag for flag in named if flag not in told} == set()
