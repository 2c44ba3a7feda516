"""How many batches may be under way, looked at tick by tick."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.credit import Credit


def left(credit: Credit, *, workers=1, pending=1000, enqueued=0, leased=0, maximum=None) -> int:
    return credit.left(workers=workers, pending=pending, enqueued=enqueued, leased=leased, maximum=maximum)


def test_every_worker_has_some_from_the_start_and_what_is_under_way_counts():
    assert left(Credit(), workers=3, enqueued=3, leased=3) == 6


def test_a_fleet_whose_workers_are_not_there_yet_has_some_too():
    assert left(Credit(), workers=0, enqueued=1) == 3


def test_a_queue_that_was_emptied_since_the_last_look_gets_twice_as_many_each_time_up_to_a_bound():
    credit = Credit()
    assert [left(credit, enqueued=0) for _ in range(7)] == [4, 8, 16, 32, 64, 64, 64]


def test_one_that_nothing_was_put_into_did_not_run_dry():
    credit = Credit()
    assert [left(credit, pending=0), left(credit), left(credit, pending=0)] == [4, 4, 4]


@pytest.mark.parametrize("look", [{"pending": 0}, {"enqueued": 50}])
def test_what_is_not_needed_any_more_is_taken_away_down_to_the_least(look):
    credit = Credit()
    for _ in range(7):
        left(credit)
    for _ in range(100):
        left(credit, **look)
    assert left(credit, pending=0) == 4


def test_messages_never_fill_more_than_a_quarter_of_the_brokers_memory():
    credit = Credit()
    for _ in range(200):
        credit.sent(200 << 10)
    most = [left(credit, workers=10, maximum=64 << 20) for _ in range(30)][-1]
    assert most == pytest.approx((16 << 20) / (200 << 10), abs=1)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 500), st.integers(0, 500), st.integers(0, 500)), max_size=40)
)
def test_it_is_never_below_nothing_and_never_without_bound(looks):
    credit = Credit()
    for workers, pending, enqueued, leased in looks:
        assert (
            0
            <= left(credit, workers=workers, pending=pending, enqueued=enqueued, leased=leased, maximum=1 << 28)
            <= 4 * max(workers, 1) + (1 << 26) / (64 << 10)
        )
