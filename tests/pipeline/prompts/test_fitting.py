"""A text that is too long is cut until its prompt fits, and the prompt's ids are exactly those of the cut text."""

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.fitting import Fitting, answer_room
from pipeline.prompts.cuts import MARK
from pipeline.prompts.shapes import shape_of
from pipeline.rows import Choose, Completion, Generate, Prompt, Row
from pipeline.spec import build_spec

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
KINDS = ["gpt2", "llama3", "metaspace-first", "legacy-llama", "unigram", "wordpiece"]
WAYS = ["head", "tail", "middle", "salient"]
SCRAPS = [
    *(
        "The film was a joy. ",
        "Was it?! ",
        "In 2024 Maria Schneider paid 12,345.67 in Kraków. ",
        "and then ",
        "word ",
        "don't ",
    ),
    *(
        "中文電影很好。",
        "日本語も",
        "مرحبا بالعالم ",
        "नमस्ते ",
        "क्षि",
        "👩‍👩‍👧",
        "🇫🇷",
        "e\u0301\u0323",
        "\u0301",
        "\n\n",
        "\r\n",
        "x" * 20,
    ),
    *("  ", "\t", "\u200b", "\x00", "ﬁ", "<think>", "▁", "...", "<|im_end|>"),
]
long_texts = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=4), max_size=60).map("".join)
PROMPT = "Review: {text}\nSentiment:"


class Watched:
    """An encoder that remembers the last texts that it was given by themselves."""

    def __init__(self, encoder):
        self._encoder, self.prefix, self.values, self.texts, self.tries = encoder, encoder.prefix, encoder.values, {}, 0

    def own_ids(self, values):
        self.texts, self.tries = values, self.tries + 1
        return self._encoder.own_ids(values)


def fitting(vocabulary, encoder, how, context, prompt=PROMPT, task=Generate(8), **fields):  # noqa: B008 - frozen
    spec = build_spec({"inputs": "a.csv", "model": "m", "prompt": prompt, "on_too_long": how, **fields})
    return Fitting(spec, shape_of(spec), vocabulary, encoder, task, context)


def fitted_again(vocabulary, encoder, how, context, text, outcome, **more):
    """The outcome, the text that was left of it, and how often it was encoded for that."""
    watched = Watched(encoder)
    found = fitting(vocabulary, watched, how, context, **more).fit(Row(0, "k", {"text": text}), outcome)[0]
    return found, watched.texts.get("text", text), watched.tries


def fitted(vocabulary, encoder, how, context, text, **more):
    (outcome,) = encoder.encode([Row(0, "k", {"text": text})])
    return fitted_again(vocabulary, encoder, how, context, text, outcome, **more)


def boundaries(text):
    return {0, *(found.end() for found in regex.finditer(r"\X", text))}


def is_of(kept, text, how):
    """Whether only whole characters went, and from where they may go."""
    at = boundaries(text)
    match how:
        case "head":
            return text.startswith(kept) and len(kept) in at
        case "tail":
            return text.endswith(kept) and len(text) - len(kept) in at
        case "middle" if MARK in kept:
            head, _, tail = kept.partition(MARK)
            return is_of(head, text, "head") and is_of(tail, text, "tail")
        case "middle":
            return is_of(kept, text, "head") or is_of(kept, text, "tail")
    characters = iter(text)
    return all(character in characters for character in kept)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_fits_exactly_and_holds_whole_characters(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind, "chatml")
    encoders = [encoder_for(vocabulary, PROMPT, raw=True), encoder_for(vocabulary, PROMPT, system="Be brief.")]

    @QUICK
    @given(long_texts, st.sampled_from(WAYS), st.integers(60, 140), st.sampled_from(encoders))
    def check(text, how, context, encoder):
        (whole,) = encoder.encode([Row(0, "k", {"text": text})])
        found, kept, tries = fitted(vocabulary, encoder, how, context, text)
        if isinstance(found, Completion):
            assert found.error_type in ("too_long", "special_token")
            return
        tokens = len(encoder.prefix) + len(found.own_ids)
        assert tokens + 8 <= context
        assert found.cut_tokens == len(whole.own_ids) - len(found.own_ids)
        assert (found.cut_tokens == 0) == (len(encoder.prefix) + len(whole.own_ids) + 8 <= context)
        (again,) = encoder.encode([Row(0, "k", {"text": kept})])
        assert again.own_ids == found.own_ids
        if encoder is encoders[0] and not any(token in kept for token in ("<|im_end|>", "<s>", "</s>")):
            ids = tokenizer(PROMPT.replace("{text}", kept))["input_ids"]
            assert [*encoder.prefix, *found.own_ids] == ids[: len(ids) - (ids[-1] == vocabulary.eos_id)]
        assert is_of(kept, text, how)
        assert tries < 16
        assert fitted(vocabulary, encoder, how, context, text) == (found, kept, tries)

    check()


def test_most_of_the_room_is_used(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, PROMPT, raw=True)
    text = " ".join(f"The film number {place} was a joy to watch, {place} times." for place in range(300))
    for how in WAYS:
        found, _, tries = fitted(vocabulary, encoder, how, 400, text)
        assert 0.75 * 392 < len(encoder.prefix) + len(found.own_ids) <= 392
        assert tries <= 4


def test_a_megabyte_is_encoded_few_times_and_by_its_ends(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, PROMPT, raw=True)
    text = "The film was a joy to watch from the first scene to the last one. " * 15_000
    outcome = Prompt(0, "k", (1,) * 300_000)
    for how in WAYS:
        found, kept, tries = fitted_again(vocabulary, encoder, how, 500, text, outcome)
        assert isinstance(found, Prompt)
        assert (tries <= 3, len(kept) < 5000) == (True, True)


def test_each_way_keeps_what_it_says(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, PROMPT, raw=True)
    dull = "It was a film and it was good and it was a good film. "
    text = f"First of all. {dull * 12}In 2024 Maria Schneider won 12 prizes. {dull * 12}That is the end."
    kept = {how: fitted(vocabulary, encoder, how, 110, text)[1] for how in WAYS}
    assert kept["head"].startswith("First of all. It was")
    assert kept["head"].endswith("good film.")
    assert kept["tail"].startswith("It was a film")
    assert kept["tail"].endswith("That is the end.")
    assert kept["middle"].startswith("First of all.")
    assert MARK in kept["middle"]
    assert kept["middle"].endswith("That is the end.")
    assert "In 2024 Maria Schneider won 12 prizes." in kept["salient"]
    assert kept["salient"].startswith("First of all. ")


def test_what_fits_is_left_as_it_is(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, PROMPT, raw=True)
    text = "The film was a joy. " * 10
    (whole,) = encoder.encode([Row(0, "k", {"text": text})])
    tokens = len(encoder.prefix) + len(whole.own_ids)
    assert fitted(vocabulary, encoder, "head", tokens + 8, text) == (whole, text, 0)
    assert fitted(vocabulary, encoder, "head", tokens + 7, text)[0].cut_tokens > 0


def test_without_a_word_of_cutting_the_row_is_an_error(make, encoder_for):
    vocabulary, _ = make("gpt2")
    found, *_ = fitted(vocabulary, encoder_for(vocabulary, PROMPT, raw=True), "error", 40, "word " * 100)
    assert (found.error_type, "have it cut (--on-too-long)" in found.error) == ("too_long", True)


def test_only_the_named_column_is_cut(make, encoder_for):
    vocabulary, _ = make("gpt2")
    prompt = "{title}: {text} ({title})"
    encoder = Watched(encoder_for(vocabulary, prompt, raw=True))
    row = Row(0, "k", {"title": "The film of the year", "text": "word " * 200})
    (outcome,) = encoder._encoder.encode([row])
    found = fitting(vocabulary, encoder, "head", 80, prompt, cut="text").fit(row, outcome)[0]
    assert isinstance(found, Prompt)
    assert encoder.texts["title"] == "The film of the year"
    assert encoder.texts["text"].startswith("word word")
    long_title = Row(0, "k", {"title": "year " * 200, "text": "word"})
    (outcome,) = encoder._encoder.encode([long_title])
    found = fitting(vocabulary, encoder, "head", 80, prompt, cut="text").fit(long_title, outcome)[0]
    assert found.error_type == "too_long"
    assert found.error.startswith('Without any text of the column "text" the prompt still has ')
    assert "the model's context is 80, of which the answer has 8 tokens." in found.error


def test_a_column_that_stands_twice_is_cut_in_both_places(make, encoder_for):
    vocabulary, _ = make("gpt2")
    prompt = "{text} and again {text}"
    encoder = encoder_for(vocabulary, prompt, raw=True)
    text = "The film was a joy to watch. " * 40
    found, kept, tries = fitted(vocabulary, encoder, "head", 100, text, prompt=prompt)
    (again,) = encoder.encode([Row(0, "k", {"text": kept})])
    assert found.own_ids == again.own_ids
    assert 60 < len(found.own_ids) <= 92
    assert tries <= 3


def test_a_chat_template_that_looks_at_the_text_is_asked_again(make, encoder_for):
    vocabulary, _ = make("gpt2", "looking")
    encoder = encoder_for(vocabulary, PROMPT)
    assert encoder.how == "rendered"
    found, kept, _ = fitted(vocabulary, encoder, "tail", 120, "The film was a joy. " * 50 + "/no_think")
    assert kept.endswith("/no_think")
    assert len(found.own_ids) <= 112


def test_a_prompt_of_nothing_but_a_text_that_cannot_be_cut_is_too_long(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, "{text}", raw=True)
    found, *_ = fitted(vocabulary, encoder, "head", 20, "e" + "\u0301" * 500, prompt="{text}")
    assert found.error_type == "too_long"


@pytest.mark.parametrize("how", WAYS)
def test_a_text_of_which_nothing_would_be_left_is_too_long(make, encoder_for, how):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, PROMPT, raw=True)
    (empty,) = encoder.encode([Row(0, "k", {"text": ""})])
    context = len(encoder.prefix) + len(empty.own_ids) + 8
    found, *_ = fitted(vocabulary, encoder, how, context, "\U00012345" * 3)
    assert found.error_type == "too_long"
    assert found.error.startswith('There is room for no character of the column "text" beside ')
    found, kept, _ = fitted(vocabulary, encoder, how, context + 2, "a bc " * 9)
    assert kept.strip()
    assert found.cut_tokens


@pytest.mark.parametrize(
    ("task", "room"),
    [(Generate(256), 256), (Generate(2000), 512), (Choose(("a", "b"), ((1, 2, 3), (4,))), 3)],
)
def test_the_answer_has_its_room_or_half_of_the_context(task, room):
    assert answer_room(Prompt(0, "0", (1,)), task, 1024) == room


def test_it_must_be_plain_what_is_cut(make, encoder_for):
    def asked(prompt, **fields):
        vocabulary, _ = make("gpt2")
        with pytest.raises(SpecError) as refused:
            fitting(vocabulary, encoder_for(vocabulary, prompt, raw=True), "head", 100, prompt, **fields)
        return str(refused.value)

    assert asked("{title}: {text}") == (
        "--on-too-long head needs --cut COLUMN, as the prompt has several: title, text. "
        "Name the one that may lose some of its text."
    )
    assert asked("{title}: {text}", cut="txet") == (
        '--cut names "txet", which is no column of the prompt. Did you mean "text"?'
    )
    assert "the prompt has no column that could be cut" in asked("Tell me a story")
