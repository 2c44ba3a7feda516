import csv
import json


def test_two_jobs_are_compared(desk, run, tmp_path):
    desk.done("night", choices=["good", "bad"])
    desk.done("other", choices=["bad", "good"])
    target = tmp_path / "changed.csv"
    told = run("compare", "night", "other", "--changed", "--output", str(target)).stdout
    assert "have results for 6 keys in common" in told
    assert "changed            5 (status 0, label 5, text 5)" in told
    assert "kappa" in told
    assert "FROM / TO\tbad\tgood\nbad\t0\t2\ngood\t3\t0\n" in told
    assert told.endswith(f"5 rows written to {target}\n")
    assert [row["key"] for row in csv.DictReader(target.open())] == ["r0", "r1", "r2", "r3", "r4"]


def test_the_figures_as_json(desk, run):
    desk.done("night")
    found = json.loads(run("compare", "night", "night", "--json").stdout)
    assert found["rows"] == {"both": 6, "only_first": 0, "only_second": 0}
    assert (found["agreement"], found["kappa"], found["confusion"]) == (1.0, None, [])


def test_a_job_beside_itself_is_said_to_be_the_same(desk, run):
    desk.done("night")
    assert run("compare", "night", "last").stderr == "Both are the same job, night, which is compared with itself.\n"


def test_what_makes_no_sense_together_is_refused(desk, run):
    desk.done("night")
    assert run("compare", "night", "night", "--changed").exit_code == 2
    assert run("compare", "night", "nite").exit_code == 3
