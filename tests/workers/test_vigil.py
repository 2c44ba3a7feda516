import pytest

from workers.vigil import Vigil

LEASE_S, LOOK_S = 60.0, 1.0


@pytest.fixture
def vigil() -> Vigil:
    """That has looked at the ledger each second from 0 to 100."""
    vigil = Vigil(LEASE_S, LOOK_S)
    assert [vigil.trusts(float(now)) for now in range(100)] == [False] * 60 + [True] * 40
    return vigil


def test_short_gaps_cost_no_lease(vigil):
    assert vigil.trusts(119.0)


@pytest.mark.parametrize("woke", [121.0, 3600.0, 50.0])
def test_after_a_long_gap_or_a_leap_of_the_clock_whoever_lives_has_a_lease_to_be_heard_of(vigil, woke):
    assert [vigil.trusts(woke + seconds) for seconds in range(61)] == [False] * 60 + [True]


def test_a_ledger_that_could_not_be_written_to_is_a_gap(vigil):
    vigil.fail()
    assert [vigil.trusts(100.0 + seconds) for seconds in range(61)] == [False] * 60 + [True]
