"""A prompt's ids are those that transformers would give it, whatever the tokenizer, the chat template and the text."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import ModelError, SpecError
from pipeline.rows import Completion, Prompt, Row, Status
from tests.pipeline.prompts.whole_prompts import chat_ids, raw_ids, rows_of, whole_ids

QUICK = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
SCRAPS = [
    *("the", "film", " was", "Answer", "ing", "don't", "7", "2024", "12,345.67", ".", "...", "!?", ":", "'s", "é", "ñ"),
    *(" ", "  ", "\n", "\n\n\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\u0301", "e\u0301", "\ufeff"),
    *(
        "中文",
        "電影。",
        "日本語",
        "Привет",
        "مرحبا",
        "नमस्ते",
        "😀",
        "👩‍👩‍👧",
        "🇫🇷",
        "\x00",
        "\x07",
        "\x1b[0m",
        "\x85",
        "\x1c",
    ),
    *(
        "▁",
        "Ġ",
        "##ing",
        "{text}",
        "{{",
        "}",
        "{% if %}",
        "/no_think",
        "<",
        "|",
        ">",
        "[INST]",
        "<think>",
        "<0x41>",
        "ﬁ",
        "Ａ",
    ),
]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
HOSTILE = [*SPECIAL, "<unk>", "<S>", "<|IM_END|>", "＜/ｓ＞", "<|im_", "end|>", "<|im_<|im_end|>end|>"]

scraps = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=4), max_size=10).map("".join)
plain_texts = st.lists(
    scraps.filter(lambda text: not any(token in text for token in [*SPECIAL, "<unk>"])), min_size=8, max_size=25
)
hostile_texts = st.lists(
    st.lists(st.sampled_from(SCRAPS + HOSTILE * 4), min_size=1, max_size=10).map("".join), min_size=5, max_size=10
)

PROMPTS = [
    "{text}",
    "Classify the sentiment of this review.\n\nReview: {text}\nSentiment:",
    "  {text} {text}\n",
    "The film was 123{text}the end ",
    "<thi{text}nk> 45, isn't it?\n\n Give 1-5 stars;\tdon't say more than 12345 words　in 中文。\r\n <think> Stars: ",
]


def test_chat_is_token_for_token_what_transformers_gives(make, encoder_for, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    pairs = itertools.product(PROMPTS, [None, "You are a helpful assistant."])
    encoders = [(prompt, system, encoder_for(vocabulary, prompt, system=system)) for prompt, system in pairs]

    @QUICK
    @given(plain_texts, st.sampled_from(encoders))
    def check(texts, made):
        prompt, system, encoder = made
        assert whole_ids(encoder, texts) == [chat_ids(tokenizer, prompt, text, system) for text in texts]

    check()


def test_raw_is_token_for_token_what_transformers_gives(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind)
    encoders = [(prompt, encoder_for(vocabulary, prompt, raw=True)) for prompt in PROMPTS]

    @QUICK
    @given(plain_texts, st.sampled_from(encoders))
    def check(texts, made):
        prompt, encoder = made
        assert whole_ids(encoder, texts) == [raw_ids(tokenizer, prompt, text) for text in texts]

    check()


def test_special_tokens_in_a_value_never_become_their_ids(make, encoder_for, kind, chat_template):
    if kind == "normalized-llama":
        pytest.skip("what stands before a special token of the template decides whether it is one")
    vocabulary, _ = make(kind, chat_template)
    control = {vocabulary.encode(token).ids[-1] for token in SPECIAL} & vocabulary.special.keys()
    encoders = [encoder_for(vocabulary, prompt, system="Be brief.") for prompt in PROMPTS]
    encoders.append(encoder_for(vocabulary, "Rate it: {text}", raw=True))

    @QUICK
    @given(hostile_texts, st.sampled_from(encoders))
    def check(texts, encoder):
        (harmless, *found) = whole_ids(encoder, ["x", *texts])
        kept = [token_id for token_id in harmless if token_id in control]
        for ids in found:
            assert [token_id for token_id in ids if token_id in control] == kept

    check()


def test_a_neutralised_text_is_one_piece_of_plain_text(make, encoder_for):
    vocabulary, tokenizer = make("gpt2", "chatml")
    encoder = encoder_for(vocabulary, "Review: {text}")
    (ids,) = whole_ids(encoder, ["so</s> good<|im_start|>"])
    plain = tokenizer("user\nReview: so</s> good<|im_start|>", split_special_tokens=True)["input_ids"]
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert ids == [start, *plain, end, *tokenizer("\n<|im_start|>assistant\n")["input_ids"]]
    assert tokenizer.decode(ids[1:]).startswith("user\nReview: so</s> good<|im_start|><|im_end|>")


def test_neutralised_rows_are_counted(make, encoder_for):
    encoder = encoder_for(make("gpt2", "chatml")[0], "{text} and {more}")
    rows = [Row(0, "0", {"text": "a", "more": "b"}), Row(1, "1", {"text": "</s><s>", "more": "<s>"})]
    encoder.encode(rows)
    encoder.encode(rows[1:])
    assert encoder.neutralised == 2


def test_a_special_token_that_literal_and_value_make_together_is_plain_text(make, encoder_for):
    for chat_template in ("chatml", "looking"):
        vocabulary, _ = make("gpt2", chat_template)
        (ids,) = whole_ids(encoder_for(vocabulary, "{text}im_end|>"), ["<|"])
        (harmless,) = whole_ids(encoder_for(vocabulary, "{text}im_end|>"), ["x"])
        end = vocabulary.encode("<|im_end|>").ids[0]
        assert ids.count(end) == harmless.count(end) == 1


def test_special_tokens_of_the_prompt_itself_are_special(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind)
    prompt = "<|im_start|> Say {text} </s> now {text}"
    encoder = encoder_for(vocabulary, prompt, raw=True)
    texts = ["yes", " well ", ""]
    assert whole_ids(encoder, texts) == [raw_ids(tokenizer, prompt, text) for text in texts]


@pytest.mark.parametrize(("template", "how"), [("trimming", "pieces"), ("looking", "rendered"), ("instruct", "pieces")])
def test_templates_that_look_at_the_text_are_rendered_row_by_row(make, encoder_for, template, how):
    encoder = encoder_for(make("llama3", template)[0], "Review: {text}", system="Be brief.")
    assert encoder.how == how
    assert bool(encoder.prefix) == (how == "pieces")


def test_a_sample_row_can_show_what_no_probe_shows(make, encoder_for):
    template = "{% for m in messages %}{{ m.content }}{% if m.content | length > 300 %} long{% endif %}{% endfor %}"
    vocabulary, tokenizer = make("gpt2", template)
    long_text = "good " * 70
    assert encoder_for(vocabulary, "{text}!").how == "pieces"
    encoder = encoder_for(vocabulary, "{text}!", sample=rows_of([long_text]))
    assert encoder.how == "rendered"
    assert whole_ids(encoder, [long_text]) == [chat_ids(tokenizer, "{text}!", long_text, None)]


def test_a_static_prompt_leaves_its_last_token_to_the_row(make, encoder_for, kind):
    vocabulary, tokenizer = make(kind, "chatml")
    for raw in (False, True):
        encoder = encoder_for(vocabulary, "Tell me a story", raw=raw)
        outcomes = encoder.encode([Row(0, "0", {}), Row(1, "1", {})])
        assert [len(outcome.own_ids) for outcome in outcomes] == [1, 1]
        expected = (
            raw_ids(tokenizer, "Tell me a story", "") if raw else chat_ids(tokenizer, "Tell me a story", "", None)
        )
        assert [*encoder.prefix, *outcomes[0].own_ids] == expected


def test_own_ids_are_never_empty(make, encoder_for):
    encoder = encoder_for(make("llama3")[0], "{text}", raw=True)
    assert whole_ids(encoder, ["", "a"])[0] == [1]
    assert encoder.prefix == ()
    (outcome,) = encoder_for(make("gpt2")[0], "{text}", raw=True).encode(rows_of([""]))
    assert (outcome.status, outcome.error_type) == (Status.ERROR, "empty")


def test_a_prompt_that_begins_with_bos_gets_no_other(make, encoder_for):
    encoder = encoder_for(make("llama3")[0], "<s>Say {text}", raw=True)
    assert whole_ids(encoder, ["hi"])[0].count(1) == 1


def test_a_bad_row_hurts_no_other(make, encoder_for):
    encoder = encoder_for(make("gpt2", "chatml")[0], "Say {text}")
    outcomes = encoder.encode([Row(4, "a", {"text": "x"}), Row(5, "b", {"text": None}), Row(6, "c", {"text": "y"})])
    assert [type(outcome) for outcome in outcomes] == [Prompt, Completion, Prompt]
    assert (outcomes[1].row_id, outcomes[1].key, outcomes[1].error_type) == (5, "b", "null")
    assert '"text"' in outcomes[1].error


def test_a_chat_template_may_refuse_a_single_row(make, encoder_for):
    template = (
        "{% for m in messages %}{% if 'stop' in m.content %}{{ raise_exception('no stop') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    encoder = encoder_for(make("gpt2", template)[0], "Say {text}")
    good, bad = encoder.encode(rows_of(["go", "stop"]))
    assert isinstance(good, Prompt)
    assert bad.error_type == "chat_template"
    assert "no stop" in bad.error


def test_no_chat_template_is_said_with_the_way_out(make, encoder_for):
    with pytest.raises(ModelError, match="--raw"):
        encoder_for(make("gpt2")[0], "{text}")


def test_a_prompt_without_tokens_is_refused(make, encoder_for):
    with pytest.raises(SpecError, match="no token comes of it"):
        encoder_for(make("gpt2", "{# nothing #}")[0], "Say hello")


def test_the_real_tokenizer_agrees_with_transformers(real, encoder_for):
    vocabulary, tokenizer = real
    prompt = "Classify the sentiment.\n\nReview: {text}\nSentiment:"
    chat, raw = encoder_for(vocabulary, prompt, system="Be brief."), encoder_for(vocabulary, prompt, raw=True)
    assert (chat.how, raw.how) == ("pieces", "pieces")

    @QUICK
    @given(plain_texts)
    def check(texts):
        assert whole_ids(chat, texts) == [chat_ids(tokenizer, prompt, text, "Be brief.") for text in texts]
        assert whole_ids(raw, texts) == [raw_ids(tokenizer, prompt, text) for text in texts]

    check()
