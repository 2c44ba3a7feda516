from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.store.turns import Waiting, take_turns


def turns(line, most, pending=100):
    """The jobs in the order of their turns; each has so much work, numbered from 0."""
    return take_turns(line, lambda job_id: iter([(job_id, number) for number in range(pending)]), most)


def test_a_higher_priority_goes_first():
    line = [Waiting("low", 0, 1.0, 0), Waiting("high", 5, 2.0, 50), Waiting("lowest", -1, 0.0, 0)]
    assert turns(line, 5, pending=2) == [("high", 0), ("high", 1), ("low", 0), ("low", 1), ("lowest", 0)]


def test_equals_share_evenly_counting_what_is_in_flight():
    line = [Waiting("a", 0, 1.0, 2), Waiting("b", 0, 2.0, 0)]
    assert [job for job, _ in turns(line, 6)] == ["b", "b", "a", "b", "a", "b"]


def test_the_first_to_be_submitted_goes_first_where_all_else_is_equal():
    line = [Waiting("later", 0, 2.0, 0), Waiting("sooner", 0, 1.0, 0)]
    assert [job for job, _ in turns(line, 2)] == ["sooner", "later"]


def test_nothing_is_asked_of_a_job_whose_turn_does_not_come():
    def work_of(job_id):
        assert job_id == "high"
        yield from range(3)

    line = [Waiting("low", 0, 1.0, 0), Waiting("high", 1, 2.0, 0)]
    assert take_turns(line, work_of, 3) == [0, 1, 2]
    assert take_turns(line, work_of, 0) == []


waiting = st.builds(
    Waiting, st.uuids().map(str), st.integers(-2, 2), st.integers(0, 5).map(float), in_flight=st.integers(0, 20)
)


@given(st.lists(waiting, max_size=6, unique_by=lambda job: job.job_id), st.integers(0, 40), st.integers(0, 12))
def test_turns_are_fair_whatever_waits(line, most, pending):
    taken = turns(line, most, pending)
    assert len(taken) == min(most, pending * len(line))
    counts = Counter(job for job, _ in taken)
    assert sorted(taken) == sorted((job, number) for job, n in counts.items() for number in range(n))
    for one in line:
        for other in line:
            if counts[one.job_id] == 0 or counts[other.job_id] == pending:
                continue  # it got nothing, or the other had nothing left to give
            assert one.priority >= other.priority
            if one.priority == other.priority:
                ahead = one.in_flight + counts[one.job_id] - 1
                assert ahead <= other.in_flight + counts[other.job_id]
