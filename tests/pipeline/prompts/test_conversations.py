"""Few-shots, and chats that rows bring along: token for token what transformers gives, all that is fixed shared."""

import json
import random
from datetime import datetime

import pytest

from pipeline.encoder import make_encoder
from pipeline.errors import SpecError
from pipeline.prompts.shapes import shape_of
from pipeline.rows import Completion, Prompt, Row
from pipeline.spec import build_spec

SUBMITTED_AT = datetime(2024, 2, 29, 12, 30)
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
SCRAPS = [
    "the",
    " film",
    "ing",
    "don't",
    "7",
    "...",
    " ",
    "\n\n",
    "\t",
    "é",
    "電影。",
    "مرحبا",
    "👩‍👩‍👧",
    "▁",
    "##s",
    "{text}",
    "\x00",
]
EXAMPLES = [{"text": "Loved it {text}", "answer": "positive"}, {"text": "never again", "answer": "negative"}]
SHOWN = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Rate: Loved it {text}"},
    {"role": "assistant", "content": "positive"},
    {"role": "user", "content": "Rate: never again"},
    {"role": "assistant", "content": "negative"},
]
LAST = {"role": "user", "content": "Rate: {text}"}


def texts(count, scraps=SCRAPS):
    numbers = random.Random(7)
    return ["".join(numbers.choices(scraps, k=numbers.randrange(9))) for _ in range(count)]


def encoder_of(vocabulary, sample=(), **fields):
    spec = build_spec({"inputs": "a.csv", "model": "m"} | fields)
    return make_encoder(spec, shape_of(spec), vocabulary, SUBMITTED_AT, sample)


def ids_of(encoder, values):
    outcomes = encoder.encode([Row(place, str(place), each) for place, each in enumerate(values)])
    return [[*encoder.prefix, *outcome.own_ids] if isinstance(outcome, Prompt) else outcome for outcome in outcomes]


def chat_ids(tokenizer, messages, **more):
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False, **more)


def test_examples_are_earlier_turns_of_the_chat(make, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    encoder = encoder_of(vocabulary, prompt="Rate: {text}", system="Be brief.", examples=EXAMPLES)
    found = ids_of(encoder, [{"text": text} for text in texts(40)])
    assert found == [chat_ids(tokenizer, [*SHOWN, {"role": "user", "content": f"Rate: {text}"}]) for text in texts(40)]


def test_messages_of_a_job_file_are_the_same(make, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    shown = [{**message, "content": message["content"].replace("{text}", "{{text}}")} for message in SHOWN]
    encoder = encoder_of(vocabulary, messages=[*shown, LAST])
    found = ids_of(encoder, [{"text": text} for text in texts(20)])
    assert found == [chat_ids(tokenizer, [*SHOWN, {"role": "user", "content": f"Rate: {text}"}]) for text in texts(20)]


def test_several_messages_may_hold_columns(make, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    messages = [{"role": "system", "content": "Of {genre}."}, LAST]
    encoder = encoder_of(vocabulary, messages=messages)
    found = ids_of(encoder, [{"text": text, "genre": text[::-1]} for text in texts(20)])
    chats = [
        [{"role": "system", "content": f"Of {text[::-1]}."}, {"role": "user", "content": f"Rate: {text}"}]
        for text in texts(20)
    ]
    assert found == [chat_ids(tokenizer, chat) for chat in chats]


def test_raw_examples_stand_before_the_prompt(make, kind):
    vocabulary, _ = make(kind)
    encoder = encoder_of(vocabulary, prompt="Text: {text}\nLabel:", raw=True, examples=EXAMPLES)
    plain = encoder_of(
        vocabulary,
        prompt="Text: Loved it {{text}}\nLabel: positive\n\nText: never again\nLabel: negative\n\nText: {text}\nLabel:",
        raw=True,
    )
    values = [{"text": text} for text in texts(20)]
    assert ids_of(encoder, values) == ids_of(plain, values)


@pytest.mark.parametrize("raw", [False, True])
def test_the_hot_prefix_covers_the_examples(real, raw):
    vocabulary, _ = real
    encoder = encoder_of(vocabulary, prompt="Text: {text}\nLabel:", raw=raw, examples=EXAMPLES)
    assert encoder.how == "pieces"
    assert "never again\nLabel:" in vocabulary.show(encoder.prefix)
    assert "negative" in vocabulary.show(encoder.prefix)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (
            {"text": "a", "answer": None},
            'Example 2 cannot be used: The column "answer" is null, so its prompt cannot be filled in.',
        ),
        ({"answer": "a"}, 'Example 2 cannot be used: The column "text" is null, so its prompt cannot be filled in.'),
        ({"text": "a", "answer": ""}, "Example 2 cannot be used: its answer is empty."),
        ({"text": "a<|im_end|>", "answer": "b"}, "Example 2 holds a special token of the model. Take it out of it."),
    ],
)
def test_an_example_that_cannot_be_used_is_named(make, example, message):
    with pytest.raises(SpecError) as caught:
        encoder_of(make("gpt2", "chatml")[0], prompt="{text}", examples=[EXAMPLES[0], example])
    assert str(caught.value) == message


def chats(count, scraps=SCRAPS):
    found = texts(3 * count, scraps)
    roles = ("system", "user", "assistant", "user")
    whole = [
        [{"role": role, "content": found[3 * n + place % 3]} for place, role in enumerate(roles)] for n in range(count)
    ]
    return [chat[n % 2 :] if n % 3 else chat[-1:] for n, chat in enumerate(whole)]


def test_chats_of_rows_are_token_for_token_what_transformers_gives(make, kind, chat_template):
    vocabulary, tokenizer = make(kind, chat_template)
    encoder = encoder_of(vocabulary, messages_column="chat")
    for values in (chats(30), [json.dumps(chat) for chat in chats(30)]):
        assert ids_of(encoder, [{"chat": chat} for chat in values]) == [chat_ids(tokenizer, c) for c in chats(30)]
    assert encoder.neutralised == 0


def test_a_special_token_in_a_chat_never_becomes_its_id(make, kind, chat_template):
    if kind == "normalized-llama":
        pytest.skip("what stands before a special token of the template decides whether it is one")
    vocabulary, _ = make(kind, chat_template)
    control = {vocabulary.encode(token).ids[-1] for token in SPECIAL} & vocabulary.special.keys()
    encoder = encoder_of(vocabulary, messages_column="chat")
    hostile = chats(30, [*SCRAPS, *SPECIAL * 4, "<|im_", "end|>", "<|im_<|im_end|>end|>", "<S>", "<|IM_END|>"])
    harmless = [[{**message, "content": "x"} for message in chat] for chat in hostile]
    for found, kept in zip(
        *(ids_of(encoder, [{"chat": c} for c in each]) for each in (hostile, harmless)), strict=True
    ):
        assert [i for i in found if i in control] == [i for i in kept if i in control]
    assert encoder.neutralised > 20


def test_what_a_message_brings_beside_its_content_reaches_the_template_as_plain_text(make):
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.name is defined %} {{ m.name }}{% endif %}\n"
        "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{{ m.content or '' }}<|im_end|>"
        "{% endfor %}"
    )
    vocabulary, tokenizer = make("gpt2", source)
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": [1, None, "x"]}}}
    chat = [
        {"role": "user", "content": "Hi", "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "5"},
    ]
    with_nulls = [{"name": None, "tool_calls": None} | message for message in chat]
    encoder = encoder_of(vocabulary, messages_column="chat")
    expected = chat_ids(tokenizer, chat)
    assert ids_of(encoder, [{"chat": chat}, {"chat": with_nulls}]) == [expected, expected]
    call["function"]["arguments"]["<|im_end|>"] = "<|im_start|>"
    chat[0]["name"] = "<|im_end|>"
    (found,) = ids_of(encoder, [{"chat": chat}])
    assert [i for i in found if i in vocabulary.special] == [i for i in expected if i in vocabulary.special]
    assert '{"name": "f", "arguments": {"a": [1, null, "x"], "<|im_end|>": "<|im_start|>"}}' in vocabulary.show(found)


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        (None, "holds null in this row, where a list of messages is wanted."),
        (5, "holds a value of type int in this row, where a list of messages is wanted."),
        ("Hi", "holds text in this row that is no JSON list of messages: Expecting value: line 1 column 1 (char 0)."),
        ("[" * 100_000, "holds text in this row that is no JSON list of messages: "),
        ("[" * 700 + "]" * 700, "holds lists or objects within each other in this row that are more than 100 deep."),
        (
            '{"role": "user", "content": "a"}',
            "holds a value of type dict in this row, where a list of messages is wanted.",
        ),
        (["Hi"], 'Message 1 in the column "chat" is "Hi", where an object is wanted.'),
        ([{"content": "a"}], 'The role of message 1 in the column "chat" is null. A role is one of '),
        (
            [{"role": "usr", "content": "a"}],
            'column "chat" is "usr". A role is one of system, developer, user, assistant, tool. Did you mean "user"?',
        ),
        ([], "holds an empty list in this row, where there must be a message at least."),
        ([{"role": "user"}], 'The content of message 1 in the column "chat" is missing.'),
        ([{"role": "user", "content": 5}], 'The content of message 1 in the column "chat" is no text, and no list of '),
        ([{"role": "user", "content": [{"type": "image"}]}], 'message 1 in the column "chat" is no text, and no list '),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
            "ends with the assistant's message in this row, and that is what the model is to write.",
        ),
        ([{"role": "user", "content": "\ud800"}], "holds half of a surrogate pair at character 1 in this row"),
        ([{"role": "user", "content": b"a"}], "holds a value of type bytes in this row."),
    ],
)
def test_a_chat_that_is_none_is_its_row_s_error(make, chat, message):
    encoder = encoder_of(make("gpt2", "chatml")[0], messages_column="chat")
    good = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    bad, other = ids_of(encoder, [{"chat": chat}, {"chat": good}])
    assert isinstance(bad, Completion)
    assert message in bad.error
    assert 'he column "chat" ' in bad.error
    assert isinstance(other, list)


def test_a_system_message_of_the_job_goes_before_chats_that_have_none(make):
    vocabulary, tokenizer = make("gpt2", "chatml")
    encoder = encoder_of(vocabulary, messages_column="chat", system="Be brief.")
    first, own, asked = (
        {"role": r, "content": c} for r, c in (("system", "Be brief."), ("system", "b"), ("user", "c"))
    )
    assert ids_of(encoder, [{"chat": [asked]}, {"chat": [own, asked]}]) == [
        chat_ids(tokenizer, [first, asked]),
        chat_ids(tokenizer, [own, asked]),
    ]


def test_variables_and_tools_reach_the_template(make):
    source = (
        "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}{% for t in tools or [] %}"
        "{{ t | tojson }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}</s>{% endif %}"
    )
    vocabulary, tokenizer = make("gpt2", source)
    tool = {"type": "function", "function": {"name": "f", "description": "Adds.", "parameters": {}}}
    encoder = encoder_of(vocabulary, prompt="{text}", template_vars={"enable_thinking": False}, tools=[tool])
    chat = [{"role": "user", "content": "Hi"}]
    assert ids_of(encoder, [{"text": "Hi"}]) == [chat_ids(tokenizer, chat, tools=[tool], enable_thinking=False)]
    with pytest.raises(SpecError, match="--template-var bos_token would change a special token of the model"):
        encoder_of(vocabulary, prompt="{text}", template_vars={"bos_token": "x"})
