"""Picked tokens against the distribution that transformers' processors leave. All seeds are fixed: nothing flakes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pipeline.inference.numbers import row_numbers
from pipeline.inference.sampling import Picker, draw, keep_top_p
from pipeline.rows import Sampling

LOGITS = torch.tensor([0.3, 2.0, -1.0, 1.2, 0.0, 1.9, -0.4, 0.9])
ROWS = 4000
#: 0.999 quantiles of the chi-square distribution, by degrees of freedom.
CRITICAL = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46, 7: 24.32, 63: 103.44}
KINDS = {
    "plain": (Sampling(temperature=1.0), []),
    "cold": (Sampling(temperature=0.4), [TemperatureLogitsWarper(0.4)]),
    "hot": (Sampling(temperature=3.0), [TemperatureLogitsWarper(3.0)]),
    "top_k": (Sampling(temperature=1.0, top_k=3), [TopKLogitsWarper(3)]),
    "top_p": (Sampling(temperature=1.0, top_p=0.7), [TopPLogitsWarper(0.7)]),
    "min_p": (Sampling(temperature=1.0, min_p=0.3), [MinPLogitsWarper(0.3)]),
    "all": (
        Sampling(temperature=1.4, top_k=6, top_p=0.9, min_p=0.2),
        [TemperatureLogitsWarper(1.4), TopKLogitsWarper(6), TopPLogitsWarper(0.9), MinPLogitsWarper(0.2)],
    ),
}
#: The first number under a seed, of a row's sample.
PINNED = {
    (0, 0, 0): 0.7306103253592386,
    (0, 1, 0): 0.33968925365560465,
    (1, 0, 0): 0.10406265292171701,
    (0, 0, 1): 0.9951613800568937,
}
kinds = pytest.mark.parametrize("kind", sorted(KINDS))


def picker(sampling, row_ids, histories=None):
    """For the first sample of each row."""
    rows = [(row_id, 0) for row_id in row_ids]
    return Picker(sampling, rows, [()] * len(rows) if histories is None else histories)


def chosen(rows, places, logits):
    return rows.choose(places, logits).tolist()


def probabilities(kind):
    return LogitsProcessorList(KINDS[kind][1])(None, LOGITS[None])[0].softmax(-1)


def chi_square(counts, expected):
    """The statistic, and its degrees of freedom; what has no probability must not occur."""
    assert counts[expected == 0].sum() == 0
    counts, expected = counts[expected > 0], expected[expected > 0] * counts.sum()
    return ((counts - expected) ** 2 / expected).sum().item(), len(counts) - 1


@kinds
def test_rows_are_drawn_by_the_probabilities_of_the_model(kind):
    picked = picker(KINDS[kind][0], range(ROWS)).choose(range(ROWS), LOGITS.expand(ROWS, -1))
    found, freedom = chi_square(torch.bincount(picked, minlength=8), probabilities(kind))
    assert found < CRITICAL[freedom]


def test_so_are_the_tokens_of_one_row():
    one = picker(Sampling(temperature=1.0), [7])
    picked = [chosen(one, [0], LOGITS[None])[0] for _ in range(ROWS)]
    found, freedom = chi_square(torch.bincount(torch.tensor(picked), minlength=8), LOGITS.softmax(-1))
    assert found < CRITICAL[freedom]


def test_a_rows_next_token_does_not_follow_from_its_last_nor_from_the_row_before():
    rows = picker(Sampling(temperature=1.0, seed=5), range(ROWS))
    first, second = (rows.choose(range(ROWS), LOGITS.expand(ROWS, -1)) for _ in range(2))
    expected = torch.outer(LOGITS.softmax(-1), LOGITS.softmax(-1)).flatten()
    for one, other in ((first, second), (first[:-1], first[1:])):
        found, freedom = chi_square(torch.bincount(one * 8 + other, minlength=64), expected)
        assert found < CRITICAL[freedom]


@kinds
def test_a_wrong_distribution_would_be_noticed(kind):
    picked = picker(KINDS[kind][0], range(ROWS)).choose(range(ROWS), LOGITS.expand(ROWS, -1))
    wrong = (LOGITS * 0.5).softmax(-1) if kind == "plain" else LOGITS.softmax(-1)
    assert chi_square(torch.bincount(picked, minlength=8), wrong)[0] > 2 * CRITICAL[7]


@kinds
def test_what_a_row_draws_depends_on_no_other_row(kind):
    sampling, ids = KINDS[kind][0], [12, 3, 99, 0, 45, 7, 8]
    logits = torch.randn(7, 300, generator=torch.Generator().manual_seed(1)) * 3
    together = picker(sampling, ids)
    expected = [chosen(together, range(7), logits) for _ in range(5)]
    for place, row_id in enumerate(ids):
        alone = picker(sampling, [row_id])
        assert [chosen(alone, [0], logits[[place]]) for _ in range(5)] == [[step[place]] for step in expected]
    order = [4, 0, 6, 2, 5, 3, 1]
    turned = picker(sampling, [ids[place] for place in order])
    assert [chosen(turned, range(7), logits[order]) for _ in range(5)] == [
        [step[at] for at in order] for step in expected
    ]


def test_rows_that_have_ended_take_no_numbers_from_those_that_go_on():
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(1)) * 3
    sampling = Sampling(temperature=1.0)
    whole, less = picker(sampling, [0, 1, 2]), picker(sampling, [0, 1, 2])
    expected = [chosen(whole, [0, 1, 2], logits) for _ in range(3)]
    assert chosen(less, [0, 1, 2], logits) == expected[0]
    assert [chosen(less, [2, 1], logits[[2, 1]]) for _ in range(2)] == [[row[2], row[1]] for row in expected[1:]]


def test_a_rows_numbers_are_the_same_on_every_machine():
    assert {names: row_numbers(*names).random() for names in PINNED} == PINNED
    assert len({row_numbers(*names).random() for names in [(1, 23, 0), (12, 3, 0), (1, 2, 30), (1, 230, 0)]}) == 4


ROWS_SAMPLES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=8, unique=True)
TALL = torch.randn(10, 300, generator=torch.Generator().manual_seed(1)) * 2


@settings(max_examples=40, deadline=None)
@given(together=ROWS_SAMPLES, data=st.data())
def test_what_a_sample_draws_depends_on_nothing_beside_it(together, data):
    """Samples of a row, which all see its logits, among others that come and go; each draws what it draws alone."""
    sampling = Sampling(1.3, top_k=50, min_p=0.01, repetition_penalty=1.2, presence_penalty=0.5, seed=4)
    histories = [(row_id, row_id + 1) for row_id, _ in together]
    beside, drawn = Picker(sampling, together, histories), [[] for _ in together]
    for _ in range(6):
        places = data.draw(st.lists(st.sampled_from(range(len(together))), min_size=1, unique=True))
        tokens = chosen(beside, places, TALL[[together[place][0] for place in places]])
        for place, token in zip(places, tokens, strict=True):
            drawn[place].append(token)
    for row, history, tokens in zip(together, histories, drawn, strict=True):
        alone = Picker(sampling, [row], [history])
        assert [chosen(alone, [0], TALL[[row[0]]])[0] for _ in tokens] == tokens


def test_samples_of_a_row_are_drawn_by_the_probabilities_of_the_model():
    samples = Picker(Sampling(temperature=1.0), [(3, sample_no) for sample_no in range(ROWS)], [()] * ROWS)
    picked = samples.choose(range(ROWS), LOGITS.expand(ROWS, -1))
    found, freedom = chi_square(torch.bincount(picked, minlength=8), LOGITS.softmax(-1))
    assert found < CRITICAL[freedom]


def test_the_seed_and_the_row_give_other_answers():
    logits = torch.zeros(1, 1000)
    found = {
        (seed, row_id): chosen(picker(Sampling(temperature=1.0, seed=seed), [row_id]), [0], logits)[0]
        for seed in (0, 1, -1)
        for row_id in (0, 1, 2)
    }
    assert len(set(found.values())) == len(found)


def test_greedy_takes_the_likeliest_token_the_first_of_equals():
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]])
    assert chosen(picker(Sampling(), [5, 6]), [1, 0], logits) == [1, 0]


#: Operations that have to wait for the device: a value is read, or a size depends on values.
WAITING = {"_local_scalar_dense.default", "item.default", "is_nonzero.default", "nonzero.default"}


class Seen(TorchDispatchMode):
    """Counts operations on tensors as large as the logits."""

    def __init__(self, size):
        super().__init__()
        self.size, self.names = size, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(isinstance(arg, torch.Tensor) and arg.numel() >= self.size for arg in args):
            self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_greedy_goes_over_the_logits_once():
    logits = torch.randn(4, 100)
    with Seen(logits.numel()) as seen:
        picker(Sampling(), range(4)).choose(range(4), logits)
    assert seen.names == ["max.dim"]


def test_choosing_asks_the_device_for_no_number():
    rows = picker(Sampling(0.8, 5, 0.9, 0.1, 1.2, 0.5), range(4), [(1, 2)] * 4)
    with Seen(0) as seen:
        for _ in range(3):
            rows.choose(range(4), torch.randn(4, 100))
    assert "searchsorted.Tensor" in seen.names
    assert not WAITING & set(seen.names)
    with Seen(0) as seen:
        keep_top_p(torch.randn(4, 100), 0.9, candidates=3)
    assert WAITING & set(seen.names)


def test_one_token_alone_is_as_good_as_greedy():
    logits = torch.randn(20, 300, generator=torch.Generator().manual_seed(1))
    for sampling in (Sampling(temperature=1.0, top_k=1), Sampling(temperature=1.0, min_p=1.0), Sampling(0.01)):
        assert chosen(picker(sampling, range(20)), range(20), logits) == logits.argmax(-1).tolist()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(repetition_penalty=1.2, presence_penalty=0.5),
        Sampling(0.8, 5, 0.9, 0.1, 1.2, 0.5),
        Sampling(temperature=1.0),
    ],
    ids=["greedy", "penalties", "all", "drawn"],
)
def test_logits_that_are_not_numbers_pick_nothing_and_hurt_no_other_row(sampling, bad):
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(1))
    broken = logits.clone()
    broken[1, 4] = bad
    whole = picker(sampling, [0, 1, 2], [(1, 2), (4, 3), (5,)])
    hurt = picker(sampling, [0, 1, 2], [(1, 2), (4, 3), (5,)])
    for _ in range(3):
        first, _, last = chosen(whole, [0, 1, 2], logits)
        assert chosen(hurt, [0, 1, 2], broken) == [first, -1, last]
    broken[1] = -math.inf
    assert chosen(hurt, [1], broken[[1]]) == [-1]


def test_penalties_come_before_the_temperature_and_apply_to_greedy_rows():
    logits = torch.tensor([[2.0, 1.8, -1.0]])
    assert chosen(picker(Sampling(repetition_penalty=2.0), [0], [(0,)]), [0], logits) == [1]
    rows = picker(Sampling(presence_penalty=0.5), [0])
    assert [chosen(rows, [0], logits)[0] for _ in range(3)] == [0, 1, 0]
    both = picker(Sampling(repetition_penalty=1.05, presence_penalty=0.5), [0], [(0,)])
    assert [chosen(both, [0], logits)[0] for _ in range(3)] == [0, 1, 0]


@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("candidates", [3, 50, 300, 5000])
def test_top_p_keeps_what_transformers_keeps(scale, top_p, candidates):
    scores = torch.randn(9, 300, generator=torch.Generator().manual_seed(4)) * scale
    expected = TopPLogitsWarper(top_p)(None, scores)
    assert 9 <= expected.isfinite().sum() < expected.numel()
    assert torch.equal(keep_top_p(scores, top_p, candidates), expected)


def test_top_p_keeps_equals_together_and_never_nothing():
    scores = torch.tensor([[1.0, 1.0, 1.0, -9.0], [5.0, -9.0, -9.0, -9.0]])
    kept = [[True, True, True, False], [True, False, False, False]]
    assert keep_top_p(scores, 0.5).isfinite().tolist() == kept
    assert keep_top_p(scores, 1e-9).isfinite().tolist() == kept
    assert keep_top_p(scores, 1.0).isfinite().all()


def test_the_extreme_numbers_draw_tokens_that_have_a_probability():
    scores = torch.tensor([-math.inf, 1.0, -math.inf, 2.0, -math.inf])
    assert draw(scores.expand(2, -1), torch.tensor([0.0, 1 - 2**-53], dtype=torch.double)).tolist() == [3, 1]
    tiny = torch.full((1, 1000), -30.0)
    tiny[0, 0] = 0
    tiny[0, 999] = -math.inf
    assert draw(tiny, torch.zeros(1, dtype=torch.double)).tolist() == [998]
