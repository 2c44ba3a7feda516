"""What stands before and behind the fields is encoded once, and never otherwise than in the whole prompt."""

import pytest

from tests.pipeline.prompts.whole_prompts import raw_ids, rows_of, whole_ids


def test_a_long_instruction_is_in_the_hot_prefix(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind)
    shots = "".join(f"Review: the film was number {n}, a joy\nSentiment: positive\n\n" for n in range(60))
    encoder = encoder_for(vocabulary, shots + "Review: {text}\nSentiment:", raw=True)
    (own,) = [prompt.own_ids for prompt in encoder.encode(rows_of(["it was bad"]))]
    assert len(encoder.prefix) > 900
    assert len(own) < 60
    assert [*encoder.prefix, *own] == raw_ids(tokenizer, shots + "Review: {text}\nSentiment:", "it was bad")


def test_a_long_instruction_behind_the_last_field_is_not_encoded_with_each_row(make, encoder_for, kind, monkeypatch):
    vocabulary, tokenizer = make(kind)
    prompt = "{text} it was" + " a joy to watch, and the actors were wonderful." * 60
    encoder = encoder_for(vocabulary, prompt, raw=True)
    encoded, encode_batch = [], vocabulary.plain.encode_batch
    monkeypatch.setattr(
        vocabulary.plain, "encode_batch", lambda texts, *more: encoded.extend(texts) or encode_batch(texts, *more)
    )
    assert whole_ids(encoder, ["bad"]) == [raw_ids(tokenizer, prompt, "bad")]
    assert [len(text) < 20 for text in encoded] == [True]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Say {text}nk> and more", "<thi"),
        ("Say {text}NK> and more", "<thi"),
        ("Say {text}> and more", "a <think"),
        ("Say <{text}> and more", "think"),
        ("Say <{text}>.config and more", "think"),
        ("Say <{text}>(as it is) and more", "think"),
        ("Say {text}_call|> now", "<|tool"),
        ("Say |<|tool_{text} and more", "call|> a"),
        ("Say it, <|tool{text} and more", "_call|>"),
    ],
)
def test_an_added_token_that_prompt_and_value_make_together_is_one(make, encoder_for, kind, prompt, text):
    vocabulary, tokenizer = make(kind)
    encoder = encoder_for(vocabulary, prompt, raw=True)
    assert whole_ids(encoder, [text]) == [raw_ids(tokenizer, prompt, text)]


@pytest.mark.parametrize("text", ["it was so.\n", "'", "don't!", "12", "A"])
def test_a_value_may_take_what_stands_behind_it_into_its_last_word(make, encoder_for, kind, text):
    vocabulary, tokenizer = make(kind)
    for prompt in ("{text}/.config is in the path", "{text}34,5 's and more", "{text}  two words"):
        encoder = encoder_for(vocabulary, prompt, raw=True)
        assert whole_ids(encoder, [text]) == [raw_ids(tokenizer, prompt, text)]


def test_a_prompt_that_may_make_a_special_token_with_a_value_has_its_hot_prefix(make, encoder_for):
    vocabulary, _ = make("llama3")
    encoder = encoder_for(vocabulary, "It was a joy to watch. Tell what <{text}> is for.", raw=True)
    assert encoder.how == "pieces"
    assert vocabulary.special_tokens["bos_token"] == "<s>"
    assert vocabulary.bos_id not in encoder.own_ids({"text": "s"})


def test_an_instruction_without_spaces_is_in_the_hot_prefix(make, encoder_for):
    vocabulary, tokenizer = make("llama3")
    shots = "電影很好看。日本語もあります。" * 40
    encoder = encoder_for(vocabulary, shots + "評論：{text}\n答：", raw=True)
    (own,) = [prompt.own_ids for prompt in encoder.encode(rows_of(["不好"]))]
    assert len(encoder.prefix) > 400
    assert len(own) < 40
    assert [*encoder.prefix, *own] == raw_ids(tokenizer, shots + "評論：{text}\n答：", "不好")


def test_spaces_that_special_tokens_swallow_do_not_slow_the_rows(make, encoder_for):
    vocabulary, tokenizer = make("swallowing")
    prompt = "<|im_start|>{text} <|im_end|>\n{text}"
    encoder = encoder_for(vocabulary, prompt, raw=True)
    texts = ["a", " a\u2003", "\x1c a \x1c", " ", "", "\u00a0</s>"]
    assert encoder.how == "pieces"
    assert whole_ids(encoder, texts[:-1]) == [raw_ids(tokenizer, prompt, text) for text in texts[:-1]]
    assert vocabulary.eos_id not in whole_ids(encoder, texts)[-1]
