"""What every dispatcher asks each second reads what is open, and not all nights that there ever were."""

from collections.abc import Callable

import pytest
from sqlalchemy import event

from pipeline.store.differences import count_differences
from pipeline.store.notices import Notices
from tests.workers.nights import HOUR, LEASE_S, Nights


def look_at_runs(nights: Nights) -> None:
    nights.tick()


def look_at_notices(nights: Nights) -> None:
    Notices(nights.database, nights.clock).claim(1.0)


def look_for_what_is_to_be_counted(nights: Nights) -> None:
    count_differences(nights.database)


@pytest.mark.parametrize("look", [look_at_runs, look_at_notices, look_for_what_is_to_be_counted])
def test_no_table_that_grows_with_the_nights_is_walked(nights, look: Callable[[Nights], None]):
    nights.add(incremental=True)
    nights.now += 15 * HOUR
    nights.ticker.tick(LEASE_S, most=0)
    asked: list[tuple[str, object]] = []
    event.listen(nights.database, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    look(nights)
    with nights.database.connect() as connection:
        plans = [
            str(row[3])
            for statement, values in asked.copy()
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
    walks = [plan for plan in plans if plan.startswith("SCAN") and not plan.startswith("SCAN schedules")]
    open_ones = ("schedule_runs_open", "schedule_runs_uncounted", "notices_pending")
    assert [plan for plan in walks if not plan.endswith(open_ones)] == []
    searches = [plan for plan in plans if plan.startswith(("SEARCH schedule_runs", "SEARCH later", "SEARCH earlier"))]
    one = ("schedule_runs_job (job_id=?)", "sqlite_autoindex_schedule_runs_1 (id=?)")
    more = [plan for plan in searches if not plan.endswith(one) and not any(name in plan for name in open_ones)]
    assert len(more) <= 1  # goes back from a run that may be begun to the one before it, and no further
