"""Chat templates, the well-behaved and the others, next to what transformers makes of them."""

import re
from datetime import datetime

import pytest

from pipeline.errors import ModelError, SpecError
from pipeline.prompts.chat import ChatTemplate, unheeded

SUBMITTED_AT = datetime(2024, 2, 29, 12, 30)


def chat(content, system):
    messages = [{"role": "system", "content": system}] if system is not None else []
    return [*messages, {"role": "user", "content": content}]


def rendered(source, content="Hi", system=None):
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"}, SUBMITTED_AT).render(chat(content, system))


LOOP = "{% for m in messages %}"
SOURCES = {
    "blocks are trimmed": "  {% if true %}\n  a\n  {% endif %}\n{{ bos_token }}{{ eos_token }}",
    "loop controls": LOOP
    + "{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }}{% break %}{% endfor %}",
    "generation": LOOP + "{% generation %}{{ m['content'] }}{% endgeneration %}{% endfor %}",
    "json": "{{ messages | tojson }} {{ {'b': 1, 'a': '<é>'} | tojson(indent=2, sort_keys=true) }}",
    "namespace": "{% set ns = namespace(n=0) %}" + LOOP + "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "dict": "{{ dict(a=1)['a'] }} {{ dict.fromkeys(['x'], 2) }}",
    "nothing given": "{{ tools is none }} {{ documents is none }} {{ other is defined }} {{ add_generation_prompt }}",
    "no escaping": "{{ messages[-1].content }}&<>",
    "undefined": "[{{ other }}]",
}


@pytest.mark.parametrize("system", [None, "Be <brief>."])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_renders_as_transformers_does(make, source, system):
    _, tokenizer = make("gpt2")
    messages = chat("é <b>\n", system)
    expected = tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False, add_generation_prompt=True)
    special_tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    assert ChatTemplate(source, special_tokens, SUBMITTED_AT).render(messages) == expected


def test_the_clock_shows_when_the_job_was_submitted():
    assert rendered("{{ strftime_now('%d %b %Y %H:%M') }}") == "29 Feb 2024 12:30"


def test_a_refusal_is_said_in_the_template_s_words():
    source = (
        LOOP + "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% endfor %}"
    )
    with pytest.raises(SpecError, match="System role not supported"):
        rendered(source, system="Be brief.")
    assert rendered(source) == ""


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ dict.fromkeys.__func__.x }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ namespace(_x=1) }}",
        "{{ raise_exception.__globals__.x }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ other.field }}",
        "{{ 'a' + 1 }}",
    ],
)
def test_a_template_that_fails_or_breaks_out_is_the_model_s_fault(source):
    with pytest.raises(ModelError, match=r"chat template .*--raw"):
        rendered(source)


def test_a_template_that_is_none_names_the_line():
    with pytest.raises(ModelError, match="line 2"):
        rendered("{{ bos_token }}\n{% for %}")


def test_the_strings_that_a_template_names():
    template = ChatTemplate("{% if '/no_think' in messages[0]['content'] %}x{% endif %}", {}, SUBMITTED_AT)
    assert template.constants == ("/no_think", "content")


@pytest.mark.parametrize(
    ("variables", "tools", "told"),
    [
        (["enable_thinking"], False, None),
        (["enable_thinkng"], False, 'asks for no variable enable_thinkng, .* Did you mean "enable_thinking"\\?'),
        (["enable_thinking"], True, "takes no tools, so that no prompt tells of them"),
    ],
)
def test_what_a_template_never_asks_for_is_told(variables, tools, told):
    source = "{% if enable_thinking is not defined %}{% set enable_thinking = true %}{% endif %}{% set tools = [] %}"
    found = unheeded(source, variables, tools=tools)
    assert (found is None) if told is None else re.search(told, found)
