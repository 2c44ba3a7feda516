import json


def test_it_lists_views_and_their_columns(run):
    listed = run("sql").stdout
    assert "v_results\n    job, key, row, question, status, label, score, output," in listed
    assert "v_timings\n" in listed


def test_it_answers_in_any_form(desk, run, tmp_path):
    desk.done("night")
    asked = "SELECT key, output FROM v_results WHERE job = 'night' AND status = 'ok' ORDER BY row LIMIT 2"
    assert run("sql", asked).stdout.splitlines() == [
        '{"key": "r0", "output": "answer 0"}',
        '{"key": "r2", "output": "answer 2"}',
    ]
    assert run("sql", asked, "--format", "csv").stdout == "key,output\nr0,answer 0\nr2,answer 2\n"
    assert run("sql", asked, "--format", "table").stdout == "key\toutput\nr0\tanswer 0\nr2\tanswer 2\n"
    target = tmp_path / "out.jsonl"
    assert run("sql", asked, "--output", str(target)).stdout == f"2 rows written to {target}\n"
    assert json.loads(target.read_text().splitlines()[1]) == {"key": "r2", "output": "answer 2"}


def test_a_table_has_its_bounds(desk, run):
    many = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 300) SELECT n FROM c"
    shown = run("sql", many, "--format", "table")
    assert len(shown.stdout.splitlines()) == 201
    assert shown.stderr.startswith("Only the first 200 rows are shown")


def test_writing_is_refused_and_a_mistake_is_told(desk, run):
    desk.done("night")
    refused = run("sql", "DELETE FROM results")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr.startswith("Error: `pipeline sql` only reads, and this would do more: ")
    mistaken = run("sql", "SELECT nowhere FROM v_jobs")
    assert (mistaken.exit_code, mistaken.stderr.splitlines()[0]) == (
        2,
        "Error: The database cannot answer this: no such column: nowhere. Write one SELECT; `pipeline sql` by itself "
        "lists what there is to ask for.",
    )
