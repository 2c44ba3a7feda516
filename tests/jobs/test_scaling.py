import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.scaling import Load, Wanted, gpus_wanted, tokenizers_wanted


def test_none_where_nothing_waits():
    assert gpus_wanted([], 60.0) == Wanted(0)
    assert tokenizers_wanted([Load(100, 0, 1.0, 1.0)], 60.0) == Wanted(0)


def test_while_an_input_is_read_a_tokenizer_stays():
    read = Load(100, 0, 1.0, 1.0, is_read=True)
    assert tokenizers_wanted([Load(100, 0, 1.0, 1.0), read], 60.0).workers == 1
    assert gpus_wanted([Load(0, 0, 1.0, 1.0, is_read=True)], 60.0) == Wanted(0)
    assert tokenizers_wanted([Load(100, 200, 1.0, 1.0, is_read=True)], 100.0) == Wanted(2)


def test_as_many_as_end_it_in_time():
    load = Load(to_answer=1000, to_encode=500, answered_per_s=2.0, encoded_per_s=100.0)
    assert gpus_wanted([load], 500.0) == Wanted(1)
    assert gpus_wanted([load], 499.0) == Wanted(2)
    assert tokenizers_wanted([load], 1.0) == Wanted(5)


def test_one_at_least_where_anything_waits():
    assert gpus_wanted([Load(1, 0, 1000.0, None)], 86_400.0) == Wanted(1)


def test_what_was_never_measured_has_one_worker_measure_it():
    wanted = gpus_wanted([Load(10**9, 0, None, None)], 60.0)
    assert wanted.workers == 1
    assert wanted.reason == (
        "No batch was answered yet with what waits, so its speed is unknown; one worker measures it."
    )


def test_a_model_without_a_rate_is_taken_to_be_like_the_others():
    wanted = gpus_wanted([Load(100, 0, 1.0, None), Load(100, 0, None, None)], 50.0)
    assert wanted.workers == 4
    assert wanted.reason is not None


def test_jobs_of_several_speeds_add_their_times():
    assert gpus_wanted([Load(100, 0, 1.0, None), Load(100, 0, 10.0, None)], 10.0) == Wanted(11)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(1e-3, 1e6)), max_size=5),
    st.floats(1.0, 1e6),
)
def test_so_many_workers_end_it_and_one_less_does_not(loads, deadline):
    wanted = gpus_wanted([Load(rows, 0, rate, None) for rows, rate in loads], deadline)
    seconds = sum(rows / rate for rows, rate in loads)
    assert seconds <= wanted.workers * deadline * (1 + 1e-9)
    assert wanted.workers <= 1 or seconds > (wanted.workers - 1) * deadline * (1 - 1e-9)
    assert (wanted.workers == 0) == (not any(rows for rows, _ in loads))
    assert wanted.reason is None


@pytest.mark.parametrize("wanted", [gpus_wanted, tokenizers_wanted])
def test_rows_that_wait_want_a_worker(wanted):
    assert wanted([Load(1, 1, 1.0, 1.0)], 60.0).workers == 1
