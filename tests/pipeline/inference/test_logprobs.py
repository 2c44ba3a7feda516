"""Log-probabilities against log_softmax computed by hand, in double precision."""

import math

import pytest
import torch

from pipeline.inference.logprobs import token_logprobs, token_text
from pipeline.rows import LikelyToken, TokenLogprob

LOGITS = torch.randn(5, 40, generator=torch.Generator().manual_seed(2)) * 4
PICKED = torch.tensor([3, 0, 39, 17, 17])


def by_hand(row):
    largest = max(row)
    total = math.log(sum(math.exp(value - largest) for value in row))
    return [value - largest - total for value in row]


@pytest.mark.parametrize("top", [0, 1, 5, 40])
def test_they_are_the_logarithms_of_the_softmax_the_likeliest_first(top):
    found = token_logprobs(LOGITS, PICKED, top, str)
    for row, picked, measured in zip(LOGITS.double().tolist(), PICKED.tolist(), found, strict=True):
        expected = by_hand(row)
        assert (measured.token_id, measured.token) == (picked, str(picked))
        assert measured.logprob == pytest.approx(expected[picked], abs=1e-5)
        ranked = sorted(range(40), key=lambda token: -expected[token])[:top]
        assert [(likely.token_id, likely.token) for likely in measured.top] == [(token, str(token)) for token in ranked]
        assert [likely.logprob for likely in measured.top] == pytest.approx([expected[t] for t in ranked], abs=1e-5)


def test_a_likely_pick_is_among_the_likeliest_with_the_same_number():
    best = LOGITS.argmax(-1)
    for measured in token_logprobs(LOGITS, best, 3, str):
        assert measured.top[0] == LikelyToken(measured.token_id, measured.token, measured.logprob)


def test_one_that_is_all_but_certain_is_not_above_zero():
    (measured,) = token_logprobs(torch.tensor([[30.0, 1.0, 0.0]]), torch.tensor([0]), 1, str)
    assert -1e-11 < measured.logprob <= 0


def test_logits_of_half_precision_are_measured_in_single():
    half = LOGITS.bfloat16()
    assert token_logprobs(half, PICKED, 2, str) == token_logprobs(half.float(), PICKED, 2, str)


def test_a_row_without_a_token_has_none_and_hurts_no_other():
    broken = LOGITS.clone()
    broken[1] = math.nan
    picked = PICKED.clone()
    picked[1] = -1
    expected = token_logprobs(LOGITS, PICKED, 2, str)
    assert token_logprobs(broken, picked, 2, str) == [expected[0], None, *expected[2:]]


def test_what_cannot_come_is_not_among_the_likeliest():
    logits = torch.tensor([[1.0, -math.inf, 1.0, -math.inf]])
    (measured,) = token_logprobs(logits, torch.tensor([2]), 4, str)
    assert {likely.token_id for likely in measured.top} == {0, 2}
    assert measured.logprob == pytest.approx(math.log(0.5))


def test_more_than_the_vocabulary_is_the_vocabulary():
    (measured,) = token_logprobs(torch.zeros(1, 3), torch.tensor([1]), 20, str)
    assert measured == TokenLogprob(1, "1", measured.logprob, measured.top)
    assert len(measured.top) == 3


WORDS = {0: "▁tea", 1: "s", 2: "", 3: "\ufffd"}


def without_the_first_space(token_ids):
    """As tokenizers of the SentencePiece kind decode."""
    return "".join(WORDS[token_id] for token_id in token_ids).replace("▁", " ").removeprefix(" ")


def test_a_tokens_text_keeps_the_space_that_it_begins_with():
    text = token_text(without_the_first_space)
    assert [text(token_id) for token_id in WORDS] == [" tea", "s", "", "\ufffd"]


def test_bytes_that_are_a_character_only_together_stay_what_they_are_alone():
    half = "é".encode()[::-1]  # twice in a row, they hold a whole character
    text = token_text(lambda token_ids: (half * len(token_ids)).decode(errors="replace"))
    assert text(0) == half.decode(errors="replace")


def test_a_text_is_decoded_once():
    asked = []

    def decode(token_ids):
        asked.append(list(token_ids))
        return "x" * len(token_ids)

    text = token_text(decode)
    assert [text(4), text(4), text(4)] == ["x", "x", "x"]
    assert asked == [[4], [4, 4]]
