"""Texts to be scored: their ids behind the prompt's are those of both encoded as one."""

import pytest

from pipeline.rows import Completion, Row

TEXTS = ["positive", "a film\nwith two lines", " it was bad", "的 è!", "\n\n", "don't 123"]


def rows(*texts, **columns):
    return [Row(place, str(place), {"answer": text, **columns}) for place, text in enumerate(texts)]


def plain_ids(tokenizer, text):
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("prompt", ["Review: {text}\nSentiment:", "{text}", "Well? Yes:"])
def test_raw_prompt_and_text_are_encoded_as_one(make, encoder_for, kind, prompt):
    """With one space between them, as before a label."""
    vocabulary, tokenizer = make(kind)
    encoder = encoder_for(vocabulary, prompt, raw=True, scored="answer")
    before = prompt.format(text="bad")
    ids = vocabulary.opening_ids + plain_ids(tokenizer, before)
    as_one = 0
    for row, found in zip(rows(*TEXTS, text="bad"), encoder.encode(rows(*TEXTS, text="bad")), strict=True):
        text = row.values["answer"]
        whole = vocabulary.opening_ids + plain_ids(tokenizer, before + ("" if text[0].isspace() else " ") + text)
        if whole[: len(ids)] == ids:
            as_one += 1
            assert (
                found.error_type == "empty" if whole == ids else encoder.prefix + found.own_ids + found.target == whole
            )
    assert as_one >= len(TEXTS) - 1


def test_behind_a_chat_template_a_text_follows_as_it_is(make, encoder_for, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    encoder = encoder_for(vocabulary, "Review: {text}", scored="answer")
    messages = [{"role": "user", "content": "Review: bad"}]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    for row, found in zip(rows(*TEXTS, text="bad"), encoder.encode(rows(*TEXTS, text="bad")), strict=True):
        ids, whole = (plain_ids(tokenizer, rendered + text) for text in ("", row.values["answer"]))
        if whole[: len(ids)] == ids != whole:
            assert encoder.prefix + found.own_ids + found.target == whole


def test_so_it_does_right_behind_a_special_token(make, encoder_for, kind):
    """Some tokenizers put a space before the first word there, and before no other."""
    template = "<|im_start|>{{ messages[-1]['content'] }}<|im_end|>"
    vocabulary, tokenizer = make(kind, template)
    encoder = encoder_for(vocabulary, "Review: {text}", scored="answer")
    asked = rows("positive", "a film", text="bad")
    for row, found in zip(asked, encoder.encode(asked), strict=True):
        whole = plain_ids(tokenizer, f"<|im_start|>Review: bad<|im_end|>{row.values['answer']}")
        assert encoder.prefix + found.own_ids + found.target == whole


def test_where_the_tokenizer_would_merge_them_the_text_is_encoded_by_itself(make, encoder_for):
    vocabulary, _ = make("llama3")
    before, whole, text = vocabulary.ids(["Say:\n", "Say:\n\nfoo", "\nfoo"])
    assert whole[: len(before)] != before
    encoder = encoder_for(vocabulary, "Say:\n", raw=True, scored="answer")
    (found,) = encoder.encode(rows("\nfoo"))
    assert encoder.prefix + found.own_ids == vocabulary.opening_ids + tuple(before)
    assert found.target == tuple(text)


def test_a_label_and_a_text_of_the_same_words_have_the_same_ids(make, encoder_for, kind):
    vocabulary, _ = make(kind, "chatml")
    for raw in (True, False):
        encoder = encoder_for(vocabulary, "Review: {text}\nSentiment:", raw=raw, scored="answer")
        (found,) = encoder.encode(rows("negative film", text="bad"))
        assert [found.target] == encoder.continuations(["negative film"])


def test_special_tokens_in_a_text_are_plain_text(make, encoder_for, kind):
    vocabulary, _ = make(kind, "chatml")
    for raw in (True, False):
        encoder = encoder_for(vocabulary, "Review: {text}", raw=raw, scored="answer")
        for found in encoder.encode(rows("</s>", "a<|im_end|>", text="bad")):
            names = {vocabulary.special[i].content for i in found.target if i in vocabulary.special}
            assert names <= {"<unk>"}


@pytest.mark.parametrize(
    ("text", "error_type", "why"),
    [
        (None, "null", "nothing to score"),
        ("", "empty", "nothing to score"),
        ("\u200b", "empty", "nothing to score"),
        ([1], "wrong_type", ""),
    ],
)
def test_a_text_that_cannot_be_scored_is_its_rows_error(make, encoder_for, text, error_type, why):
    encoder = encoder_for(make("wordpiece")[0], "Review: {text}", raw=True, scored="answer")
    good, bad, also_good = encoder.encode(rows("good", text, "bad", text="x"))
    assert isinstance(bad, Completion)
    assert (bad.row_id, bad.error_type) == (1, error_type)
    assert 'column "answer"' in bad.error
    assert why in bad.error
    assert (good.target, also_good.target) == tuple(map(tuple, make("wordpiece")[0].ids(["good", "bad"])))


def test_the_prompts_own_fault_is_told_first(make, encoder_for):
    encoder = encoder_for(make("gpt2")[0], "Review: {text}", raw=True, scored="answer")
    (found,) = encoder.encode([Row(0, "0", {"text": None, "answer": None})])
    assert 'column "text" is null' in found.error


def test_rows_are_counted_whose_special_tokens_stand_in_the_text_that_is_scored(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, "Review: {text}", raw=True, scored="answer")
    encoder.encode([*rows("a <|im_end|>", "plain", None, text="bad"), *rows("<|im_end|>", text="<|im_end|>")])
    assert encoder.neutralised == 2
