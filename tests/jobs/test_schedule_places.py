"""`pipeline schedule` where there is nothing yet, or in the wrong place."""

import json
import re

import pytest
from click.shell_completion import get_completion_class

from jobs.cli import cli
from tests.jobs.schedules import make_due


@pytest.mark.parametrize(
    "command", ["tick", "run-now night", "show night", "next night", "pause night", "remove night"]
)
def test_where_there_is_no_database_none_is_made_and_that_is_told(run, tmp_path, command):
    nowhere = tmp_path / "nodir"
    result = run("schedule", *command.split(), PIPELINE_HOME=str(nowhere))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith(f"Error: There are no schedules yet in {nowhere}/pipeline.db. ")
    assert not nowhere.exists()


def test_nor_is_one_for_a_list(run, tmp_path):
    nowhere = tmp_path / "nodir"
    assert json.loads(run("schedule", "list", "--json", PIPELINE_HOME=str(nowhere)).stdout) == []
    listed = run("schedule", "list", PIPELINE_HOME=str(nowhere))
    assert (listed.exit_code, "There are no schedules yet" in listed.stderr) == (0, True)
    assert not nowhere.exists()


def test_a_tick_over_no_schedules_is_no_good_night(desk, run):
    result = run("schedule", "tick")
    assert (result.exit_code, "There are no schedules yet" in result.stderr) == (3, True)


def test_what_is_not_there_is_not_read_again(add):
    result = add("other", "--replace", job={"inputs": "later.csv"})
    assert (result.exit_code, "It is looked for again" in result.stderr) == (3, False)


@pytest.mark.parametrize("name", ["bad name/..", "..", "a\\b"])
def test_a_name_that_files_may_have_is_no_path(add, name):
    assert (add(name).exit_code, "have no / in it" in add(name).stderr) == (2, True)


def test_a_schedule_that_nobody_starts_says_so_and_times_tell_their_zone(desk, run, add):
    add("night", "--tz", "Europe/Berlin")
    for command in (("list",), ("show", "night")):
        assert "Nobody has looked" not in run("schedule", *command).stdout
    make_due(desk, ago_s=7200)
    for command in (("list",), ("show", "night")):
        told = run("schedule", *command).stdout
        assert "Nobody has looked at the clock since " in told
        assert re.search(r"\d\d:\d\d CES?T", told)


def test_a_shell_completes_names_of_schedules(desk, add, monkeypatch):
    add("night")
    add("weekly")
    monkeypatch.setenv("PIPELINE_HOME", str(desk.home))
    shell = get_completion_class("bash")(cli, {}, "pipeline", "_PIPELINE_COMPLETE")
    assert [item.value for item in shell.get_completions(["schedule", "run-now"], "")] == ["night", "weekly"]
    assert [item.value for item in shell.get_completions(["schedule", "show"], "w")] == ["weekly"]
