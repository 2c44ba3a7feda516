"""Prompts that nothing follows: whole texts, as they are turned into vectors."""

import pytest

from pipeline.rows import Completion, Row

TEXTS = ["it was bad", "", "</s> two\nlines ", "的 è"]
PROMPTS = ["{text}", "Represent this for search: {text}", "{text}!"]


def rows(texts):
    return [Row(place, str(place), {"text": text}) for place, text in enumerate(texts)]


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_raw_one_is_all_that_the_tokenizer_makes_of_it(make, encoder_for, kind, prompt, shares):
    """With what it puts last, such as [SEP], which is left out where text is to follow."""
    vocabulary, tokenizer = make(kind)
    encoder = encoder_for(vocabulary, prompt, raw=True, closed=True, shares=shares)
    for text, found in zip(TEXTS, encoder.encode(rows(TEXTS)), strict=True):
        if "</s>" in text:
            assert not {2} & set(found.own_ids[: len(found.own_ids) - len(vocabulary.closing_ids)])
            continue
        expected = tuple(tokenizer(prompt.format(text=text))["input_ids"])
        if isinstance(found, Completion):
            assert (found.error_type, expected) == ("empty", encoder.prefix)
        else:
            assert encoder.prefix + found.own_ids == expected


def test_a_chat_is_as_it_would_be_answered(make, encoder_for, kind, chat_template):
    vocabulary, _ = make(kind, chat_template)
    whole = encoder_for(vocabulary, "Say {text}", closed=True, shares=False)
    usual = encoder_for(vocabulary, "Say {text}")
    assert whole.prefix == ()
    for one, other in zip(whole.encode(rows(TEXTS)), usual.encode(rows(TEXTS)), strict=True):
        assert one.own_ids == usual.prefix + other.own_ids


def test_what_a_tokenizer_puts_around_a_text_is_known(make):
    for kind, around in (("gpt2", (0, 0)), ("llama3", (1, 0)), ("wordpiece", (1, 1))):
        vocabulary, _ = make(kind)
        assert (len(vocabulary.opening_ids), len(vocabulary.closing_ids)) == around


def test_a_prompt_without_columns_is_whole_too(make, encoder_for):
    vocabulary, tokenizer = make("wordpiece")
    encoder = encoder_for(vocabulary, "The film", raw=True, closed=True, shares=False)
    (found,) = encoder.encode(rows(["x"]))
    assert (encoder.prefix, list(found.own_ids)) == ((), tokenizer("The film")["input_ids"])
