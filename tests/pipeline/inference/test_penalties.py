"""Penalties for rows of unequal history, against transformers' processor, a row at a time."""

import random

import pytest
import torch
from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

from pipeline.inference.penalties import Penalty, frequency, presence, repetition

VOCAB = 50
HISTORIES = [(3,), (7, 7, 7, 1), tuple(range(0, 50, 3)), (49, 0)]


def scores(rows, seed=0):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 5


def transformers_scores(penalty, history, row):
    return RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([history]), row[None])[0]


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_repetition_is_what_transformers_makes_of_each_row_alone(factor):
    penalty, numbers = Penalty(repetition(factor), HISTORIES), random.Random(3)
    histories = [list(history) for history in HISTORIES]
    places = list(range(len(HISTORIES)))
    for step in range(12):
        given = scores(len(places), step)
        found = penalty.lower(places, given)
        for place, row, lowered in zip(places, given, found, strict=True):
            assert torch.equal(lowered, transformers_scores(factor, histories[place], row))
        news = [numbers.randrange(VOCAB) for _ in places]
        penalty.add(places, torch.tensor(news))
        for place, token in zip(places, news, strict=True):
            histories[place].append(token)
        numbers.shuffle(places)
        places = places[:3] if step == 6 else places


def test_presence_lowers_a_token_once_however_often_it_was_seen():
    penalty = Penalty(presence(1.5), [(), ()])
    given = scores(2)
    assert torch.equal(penalty.lower([0, 1], given), given)
    for token in (4, 4, 9):
        penalty.add([1], torch.tensor([token]))
    expected = given.clone()
    expected[1, [4, 9]] -= 1.5
    assert torch.equal(penalty.lower([0, 1], given), expected)
    assert torch.equal(penalty.lower([1, 0], given.flip(0)), expected.flip(0))


def test_frequency_lowers_a_token_each_time_that_it_was_seen():
    penalty = Penalty(frequency(0.5), [(), ()])
    given = scores(2)
    assert torch.equal(penalty.lower([0, 1], given), given)
    for token in (4, 9, 4, -1, 4):
        penalty.add([1], torch.tensor([token]))
    expected = given.clone()
    expected[1, 4] = given[1, 4] - 0.5 - 0.5 - 0.5
    expected[1, 9] -= 0.5
    assert torch.equal(penalty.lower([0, 1], given), expected)
    assert torch.equal(penalty.lower([1, 0], given.flip(0)), expected.flip(0))


def test_a_row_that_comes_late_and_one_that_stays_long_see_their_own():
    """Over more tokens than there is room for at first."""
    penalty, numbers = Penalty(presence(1.0), [(1,), (2,)]), random.Random(5)
    histories = {0: {1}, 1: {2}}
    for step in range(200):
        places = [0] if step < 150 else [1, 0]
        news = [numbers.randrange(VOCAB) for _ in places]
        penalty.add(places, torch.tensor(news))
        for place, token in zip(places, news, strict=True):
            histories[place].add(token)
    given = scores(2)
    expected = given.clone()
    for place, history in histories.items():
        expected[place, sorted(history)] -= 1.0
    assert torch.equal(penalty.lower([0, 1], given), expected)
    assert torch.equal(penalty.lower([1], given[[1]]), expected[[1]])


def test_nothing_added_is_nothing_seen():
    penalty = Penalty(presence(1.0), [()])
    given = scores(1)
    penalty.lower([0], given)
    penalty.add([], torch.tensor([], dtype=torch.long))
    penalty.add([0], torch.tensor([-1]))
    assert torch.equal(penalty.lower([0], given), given)


def test_a_token_that_the_model_reads_but_cannot_write_is_left_out():
    given = scores(1)
    found = Penalty(repetition(2.0), [(VOCAB, VOCAB + 7, 2)]).lower([0], given)
    assert torch.equal(found[0], transformers_scores(2.0, (2,), given[0]))


def test_the_scores_given_stay_as_they_are():
    given = scores(4)
    before = given.clone()
    Penalty(repetition(2.0), HISTORIES).lower([0, 1, 2, 3], given)
    assert torch.equal(given, before)
