"""A row that kills whoever answers it: it ends as an error that says so, and no other row suffers."""

from tests.fleet.marks import on_sqlite
from tests.fleet.table import expected


@on_sqlite
def test_deadly_rows_are_errors_and_their_neighbours_are_answered(fleet, rows, name, calm):
    fleet.submit(rows, name, "--key", "deadly", "--limit", "7", PIPELINE_SHARD_ROWS="2")
    fleet.until_done(name, 240)
    answers = expected(calm, "deadly", 7)
    answers[2] = ("is killed", "error", None, "crash", 0)
    answers[6] = ("ends with 3", "error", None, "crash", 0)
    fleet.require_whole(name, answers)
    told = {row.row_id: row.error for row in fleet.seen.results(name) if row.error_type == "crash"}
    assert "killed by signal 9 (SIGKILL)" in told[2]
    assert "ended with status 3" in told[6]
