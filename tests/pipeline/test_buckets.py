import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.buckets import Budget, PlannedBatch, batch_rows, budget, plan
from pipeline.rows import Generate, Questions, Score
from pipeline.settings import Settings

lengths = st.lists(st.integers(1, 60), max_size=80).map(lambda sizes: list(enumerate(sizes)))


def test_rows_of_like_length_come_together_longest_first():
    pairs = [(0, 5), (1, 40), (2, 6), (3, 38), (4, 5)]
    assert plan(pairs, max_rows=2, max_tokens=100) == [
        PlannedBatch((1, 3), 78),
        PlannedBatch((2, 0), 11),
        PlannedBatch((4,), 5),
    ]


def test_the_token_budget_closes_a_batch():
    assert plan([(0, 10), (1, 10), (2, 10)], max_rows=9, max_tokens=20) == [
        PlannedBatch((0, 1), 20),
        PlannedBatch((2,), 10),
    ]


def test_a_row_over_the_budget_is_alone():
    assert plan([(0, 3), (1, 500), (2, 600)], max_rows=9, max_tokens=20) == [
        PlannedBatch((2,), 600),
        PlannedBatch((1,), 500),
        PlannedBatch((0,), 3),
    ]


def test_a_row_of_several_questions_is_not_divided_where_a_batch_holds_it():
    """Rows of three, each of which brings 10 tokens along and 2 with each question."""
    together = [(row_id, 2 if row_id % 3 else 12) for row_id in range(9)]
    lengths = [(row_id, 12) for row_id in range(9)]
    rows = lambda **most: [batch.row_ids for batch in plan(lengths, together=together, questions=3, **most)]  # noqa: E731
    assert rows(max_rows=7, max_tokens=99) == [(0, 1, 2, 3, 4, 5), (6, 7, 8)]
    assert rows(max_rows=99, max_tokens=35) == [(0, 1, 2, 3, 4, 5), (6, 7, 8)]
    assert rows(max_rows=2, max_tokens=99) == [(0, 1), (2,), (3, 4), (5,), (6, 7), (8,)]


def test_rows_of_several_samples_make_fewer_rows_of_a_batch():
    asked = Questions((Score(), Generate(4, samples=2), Score(), Score()))
    assert [batch_rows(each, 10) for each in (Score(), Generate(4, samples=4), Generate(4, samples=64), asked)] == [
        10, 2, 1, 8,
    ]  # fmt: skip


def test_nothing_makes_no_batch():
    assert plan([], max_rows=4, max_tokens=10) == []


@pytest.mark.parametrize(("max_rows", "max_tokens"), [(0, 10), (4, 0)])
def test_a_budget_of_nothing_is_refused(max_rows, max_tokens):
    with pytest.raises(ValueError, match="1 or more"):
        plan([(0, 1)], max_rows=max_rows, max_tokens=max_tokens)


@given(lengths, st.integers(1, 9), st.integers(1, 100))
def test_every_row_is_in_one_batch_within_both_budgets(pairs, max_rows, max_tokens):
    batches = plan(pairs, max_rows=max_rows, max_tokens=max_tokens)
    sizes = dict(pairs)
    assert sorted(row_id for batch in batches for row_id in batch.row_ids) == sorted(sizes)
    for batch in batches:
        assert batch.n_tokens == sum(sizes[row_id] for row_id in batch.row_ids)
        assert len(batch.row_ids) <= max_rows
        assert batch.n_tokens <= max_tokens or len(batch.row_ids) == 1
    longest = [sizes[batch.row_ids[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)


@given(lengths, st.randoms(use_true_random=False))
def test_the_order_given_changes_nothing(pairs, order: random.Random):
    shuffled = order.sample(pairs, len(pairs))
    assert plan(shuffled, max_rows=3, max_tokens=90) == plan(pairs, max_rows=3, max_tokens=90)


def test_rows_that_share_more_stay_neighbours_and_apart_from_the_others():
    lengths = [(0, 25), (1, 9), (2, 21), (3, 22), (4, 7)]
    planned = plan(lengths, max_rows=2, max_tokens=100, together=[(3, 22), (0, 5), (2, 1)])
    assert [batch.row_ids for batch in planned] == [(3, 0), (2,), (1, 4)]
    assert [batch.n_tokens for batch in planned] == [22 + 5, 21, 16]


def test_what_rows_share_counts_in_every_batch_that_needs_it():
    lengths = [(row_id, 1000) for row_id in range(6)]
    adds = [1000, 10, 1000, 10, 1000, 10]  # three documents, two rows each
    planned = plan(lengths, max_rows=100, max_tokens=1500, together=list(enumerate(adds)))
    assert [batch.row_ids for batch in planned] == [(0, 1), (2, 3), (4, 5)]
    assert [batch.n_tokens for batch in planned] == [1010] * 3


@dataclass
class Measured:
    prompts: int
    own_tokens: int
    seconds: float


SETTINGS = Settings(batch_seconds=10.0, shard_rows=1000)
rates = st.builds(Measured, st.integers(0, 10**9), st.integers(0, 10**12), st.floats(0, 1e6))


def test_a_batch_takes_the_seconds_that_it_should() -> None:
    assert budget(SETTINGS, Measured(prompts=50, own_tokens=20_000, seconds=20.0)) == Budget(25, 10_000)


def test_several_answers_to_a_row_make_as_many_rows_a_batch_and_uncounted_tokens_bound_nothing() -> None:
    assert budget(SETTINGS, Measured(prompts=50, own_tokens=20_000, seconds=20.0), samples=4) == Budget(100, 10_000)
    assert budget(SETTINGS, Measured(prompts=50, own_tokens=0, seconds=20.0)) == Budget(25, SETTINGS.batch_tokens)


@pytest.mark.parametrize("rate", [None, Measured(0, 0, 0.0), Measured(5, 100, 0.0), Measured(0, 0, 9.0)])
def test_unmeasured_the_settings_count(rate) -> None:
    assert budget(SETTINGS, rate) == Budget(SETTINGS.batch_rows, SETTINGS.batch_tokens)


def test_a_slow_device_gets_batches_that_are_not_too_small_and_a_fast_one_no_more_than_a_shard() -> None:
    assert budget(SETTINGS, Measured(prompts=1, own_tokens=50_000, seconds=100.0)) == Budget(8, 5_000)
    assert budget(SETTINGS, Measured(prompts=10**6, own_tokens=10**9, seconds=1.0)) == Budget(1000, 1 << 16)
    assert budget(Settings(shard_rows=3), Measured(prompts=1, own_tokens=50_000, seconds=100.0)).max_rows == 3


@given(rates, st.integers(1, 10_000), st.integers(1, 600))
def test_every_budget_can_be_planned_within(rate, shard_rows, batch_seconds):
    found = budget(Settings(shard_rows=shard_rows, batch_seconds=float(batch_seconds), batch_rows=1), rate)
    assert 1 <= found.max_rows <= shard_rows
    assert found.max_tokens >= 1
    assert plan([(0, 5), (1, 7)], max_rows=found.max_rows, max_tokens=found.max_tokens)


@given(rates.filter(lambda rate: rate.prompts and rate.own_tokens and rate.seconds))
def test_a_faster_device_never_gets_smaller_batches(rate):
    faster = Measured(2 * rate.prompts, 2 * rate.own_tokens, rate.seconds)
    one, other = budget(SETTINGS, rate), budget(SETTINGS, faster)
    assert (other.max_rows >= one.max_rows, other.max_tokens >= one.max_tokens) == (True, True)
