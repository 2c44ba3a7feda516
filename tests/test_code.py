"""The code's own rules: lint, format, types, the architecture's contracts, and files that one can read in one go."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TREES = ("pipeline", "workers", "jobs", "migrations", "tests", "benchmarks")
MAX_LINES = 300


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("importlinter.cli", "lint"),
    ],
    ids=lambda command: command[0],
)
def test_tools_find_nothing(command):
    module = command[0]
    runner = ["-c", "from importlinter.cli import import_linter; import_linter()"] if "." in module else ["-m", module]
    done = subprocess.run([sys.executable, *runner, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_is_longer_than_a_person_reads():
    lengths = {path: len(path.read_text().splitlines()) for tree in TREES for path in (ROOT / tree).rglob("*.py")}
    assert lengths
    assert {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > MAX_LINES} == {}
