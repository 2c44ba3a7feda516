import pytest

from pipeline.timing import Stopwatch, timed


def clock(*moments):
    return iter(moments).__next__


def test_a_stage_takes_what_the_clock_says():
    watch = Stopwatch(clock(10.0, 12.5))
    with watch.stage("encode"):
        pass
    assert watch.seconds == {"encode": 2.5}


def test_stages_add_up_by_their_name():
    watch = Stopwatch(clock(0.0, 1.0, 5.0, 7.0, 7.0, 10.0))
    for name in ("prefill", "decode", "prefill"):
        with watch.stage(name):
            pass
    assert watch.seconds == {"prefill": 4.0, "decode": 2.0}


def test_a_stage_that_never_was_took_no_time():
    assert Stopwatch().seconds["decode"] == 0.0


def test_a_stage_that_fails_counts_too():
    watch = Stopwatch(clock(1.0, 4.0))
    with pytest.raises(KeyError), watch.stage("prefill"):
        raise KeyError
    assert watch.seconds == {"prefill": 3.0}


def test_what_is_waited_for_takes_its_own_time_and_not_what_is_done_with_it():
    assert list(timed("ab", clock(0.0, 1.5, 10.0, 12.0, 20.0))) == [("a", 1.5), ("b", 2.0)]
