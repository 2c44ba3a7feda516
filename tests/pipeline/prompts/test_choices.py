import pytest

from pipeline.errors import SpecError
from pipeline.prompts.choices import verdicts
from pipeline.rows import Row


def test_raw_choices_follow_the_prompt_behind_one_space(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind)
    encoder = encoder_for(vocabulary, "Review: {text}\nSentiment:", raw=True)
    found = encoder.continuations(["positive", "negative film"])
    for choice, ids in zip(["positive", "negative film"], found, strict=True):
        prompt = tokenizer("Review: bad\nSentiment:", add_special_tokens=False)["input_ids"]
        whole = tokenizer(f"Review: bad\nSentiment: {choice}", add_special_tokens=False)["input_ids"]
        assert whole == [*prompt, *ids]


def test_chat_choices_follow_the_prompt_as_they_are(make, encoder_for, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    encoder = encoder_for(vocabulary, "Review: {text}")
    (ids, _) = encoder.continuations(["positive", "negative"])
    messages = [{"role": "user", "content": "Review: bad"}]
    rendered = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    prompt = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    whole = tokenizer(rendered + "positive", add_special_tokens=False)["input_ids"]
    if whole[: len(prompt)] == prompt:
        assert list(ids) == whole[len(prompt) :]
    assert vocabulary.decode(ids).replace(" ", "") == "positive"


def test_a_prompt_that_ends_in_a_space_or_a_column(make, encoder_for):
    vocabulary, _ = make("gpt2")
    plain, spaced = vocabulary.ids(["good", " good"])
    for prompt, expected in [("{text} is ", plain), ("{text}\n", plain), ("is {text}", spaced), ("{text} is", spaced)]:
        assert encoder_for(vocabulary, prompt, raw=True).continuations(["good", "bad"])[0] == tuple(expected)


def test_a_static_prompt_has_choices_too(make, encoder_for):
    vocabulary, _ = make("gpt2", "chatml")
    (expected,) = vocabulary.ids(["good"])
    assert encoder_for(vocabulary, "Well?").continuations(["good", "bad"])[0] == tuple(expected)


def test_special_tokens_in_a_choice_are_plain_text(make, encoder_for, kind):
    vocabulary, _ = make(kind, "chatml")
    for raw in (False, True):
        for ids in encoder_for(vocabulary, "{text}", raw=raw).continuations(["</s>", "a<|im_end|>"]):
            assert {vocabulary.special[i].content for i in ids if i in vocabulary.special} <= {"<unk>"}


def test_choices_of_the_same_tokens_are_refused(make, encoder_for):
    encoder = encoder_for(make("wordpiece")[0], "{text}", raw=True)
    with pytest.raises(SpecError, match='"Good" and "good" are the same tokens'):
        encoder.continuations(["bad", "Good", "good"])


def test_a_choice_without_tokens_is_refused(make, encoder_for):
    with pytest.raises(SpecError, match="no tokens"):
        encoder_for(make("wordpiece")[0], "{text}", raw=True).continuations(["good", "\u200b"])


def test_a_choice_that_begins_another_is_refused(make, encoder_for):
    """The longer one could never win: it is the shorter one's probability times something."""
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, "Review: {text}\nSentiment:", raw=True)
    with pytest.raises(
        SpecError, match=r'The choice "no" is the beginning of the choice "no way", .* or add --length-normalize'
    ):
        encoder.continuations(["yes", "no way", "no"])


def test_so_it_is_not_where_labels_are_compared_by_the_mean_of_their_tokens(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, "Review: {text}\nSentiment:", raw=True)
    assert encoder.continuations(["no way", "no"], nested=True) == list(map(tuple, vocabulary.ids([" no way", " no"])))


def test_each_label_is_a_question_of_two_answers():
    assert verdicts(["cat", "a dog"]) == ["cat: yes", "cat: no", "a dog: yes", "a dog: no"]


def test_a_content_free_prompt_is_encoded_as_rows_are(make, encoder_for, kind):
    vocabulary, _ = make(kind, "chatml")
    for raw in (False, True):
        encoder = encoder_for(vocabulary, "Review of {title}: {text}\nSentiment:", raw=raw)
        (row,) = encoder.encode([Row(0, "0", {"title": "N/A", "text": "N/A"})])
        assert encoder.content_free() == encoder.prefix + row.own_ids


def test_a_prompt_without_columns_has_no_content_to_leave_out(make, encoder_for):
    with pytest.raises(SpecError, match=r"--prior-correction needs a \{column\} in the prompt"):
        encoder_for(make("gpt2")[0], "Well?", raw=True).content_free()
