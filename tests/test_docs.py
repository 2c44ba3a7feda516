"""Commands in docs/ do what the texts say, and what they list is what the code has."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.cli import COMMANDS, cli
from tests.documented import GOING_ON, lines

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
#: Their commands are cheap, so all run in this process.
ALONE = [path for path in DOCS if path not in GOING_ON]


def test_the_error_types_that_are_explained_are_those_that_rows_have():
    files = [path for tree in ("pipeline", "workers") for path in (ROOT / tree).rglob("*.py")]
    # Lines of a batch file that cannot be read are no rows.
    source = "\n".join(path.read_text() for path in files if path.parent.name != "openai")
    given = set(re.findall(r'(?:RowError\(\s*|error_type=|^CRASH = |^_TYPE = )"(\w+)"', source, re.MULTILINE))
    table = (ROOT / "docs/failures.md").read_text().partition("## Of a process")[0]
    explained = {
        name for line in table.splitlines() if line[:2] == "| " for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert explained - {"error_type"} == given


def test_links_between_documents_lead_somewhere():
    links = [
        (path, link)
        for path in (ROOT / "README.md", *DOCS)
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    ]
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", directory / "examples")
    return directory


@pytest.mark.parametrize("line", [line for text in ALONE for line in lines(text)])
def test_a_command_does_what_it_says(place, line, monkeypatch):
    monkeypatch.chdir(place)
    program, *arguments = shlex.split(line)
    assert program == "pipeline"
    done = CliRunner(env={"PIPELINE_HOME": str(place / ".pipeline")}).invoke(cli, arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("text", DOCS, ids=lambda text: text.name)
def test_the_flags_that_a_text_names_are_there(text):
    spans = [span for span in re.findall(r"`([^`\n]+)`", text.read_text()) if not span.startswith("docker ")]
    named = {flag for span in spans for flag in re.findall(r"--[a-z-]+", span)}
    runner = CliRunner()
    subcommands = [("schedule", name) for name in ("add", "next", "run-now", "list")]
    told = "".join(
        runner.invoke(cli, [*command, "--help"]).output
        for command in [*((name,) for name in COMMANDS), *subcommands, ("worker", "tokenizer"), ("worker", "gpu")]
    )
    assert {flag for flag in named if flag not in told} == set()
