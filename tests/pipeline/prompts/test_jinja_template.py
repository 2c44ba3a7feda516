"""Prompts that are jinja templates: as exact and as safe as placeholders, and no row can reach out of one."""

import random
from datetime import date, datetime

import pytest

from pipeline.encoder import make_encoder
from pipeline.errors import RowError, SpecError
from pipeline.prompts.jinja_template import JinjaTemplate
from pipeline.prompts.shapes import shape_of
from pipeline.rows import Completion, Prompt, Row
from pipeline.spec import build_spec

SUBMITTED_AT = datetime(2024, 2, 29, 12, 30)
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
SCRAPS = [
    "the",
    " film",
    "don't",
    "7",
    "...",
    " ",
    "\n\n",
    "é",
    "電影。",
    "👩‍👩‍👧",
    "##s",
    "{{ text }}",
    "{% if %}",
    "\ufffc",
    "\x00",
]
HOSTILE = [*SCRAPS, *SPECIAL * 4, "<|im_", "end|>", "<S>", "<|IM_END|>", "&lt;/s&gt;"]


def texts(count, scraps=SCRAPS):
    numbers = random.Random(11)
    return ["".join(numbers.choices(scraps, k=numbers.randrange(9))) for _ in range(count)]


def encoder_of(vocabulary, prompt, template="jinja", **fields):
    spec = build_spec({"inputs": "a.csv", "model": "m", "prompt": prompt, "template": template} | fields)
    return make_encoder(spec, shape_of(spec), vocabulary, SUBMITTED_AT, ())


def ids_of(encoder, values):
    outcomes = encoder.encode([Row(place, str(place), each) for place, each in enumerate(values)])
    assert {outcome.error for outcome in outcomes if isinstance(outcome, Completion)} <= {None}
    return [[*encoder.prefix, *outcome.own_ids] for outcome in outcomes if isinstance(outcome, Prompt)]


def rendered(source, **values):
    template = JinjaTemplate.parse(source).at(SUBMITTED_AT)
    return template.content(template.values(Row(0, "0", values))).text


def fault(source, **values):
    with pytest.raises(RowError) as caught:
        rendered(source, **values)
    assert caught.value.error_type == "template"
    return str(caught.value)


@pytest.mark.parametrize("raw", [False, True])
def test_it_gives_the_ids_of_placeholders_that_say_the_same(make, kind, chat_template, raw):
    vocabulary, _ = make(kind, chat_template)
    jinja = encoder_of(vocabulary, "Rate {{ n }}:\n{% if true %}{{ text }}{% endif %} of {{ text }}\nLabel:", raw=raw)
    plain = encoder_of(vocabulary, "Rate {n}:\n{text} of {text}\nLabel:", "plain", raw=raw)
    values = [{"text": text, "n": 7} for text in texts(25)]
    assert ids_of(jinja, values) == ids_of(plain, values)


LOOP = "{% for turn in turns %}<|im_start|>{{ turn.role }}: {{ turn.text }}<|im_end|>{% endfor %} So?"


def test_a_special_token_counts_where_the_template_wrote_it_and_never_out_of_a_value(make, kind):
    if kind == "normalized-llama":
        pytest.skip("what stands before a special token of the template decides whether it is one")
    vocabulary, _ = make(kind)
    control = {vocabulary.encode(token).ids[-1] for token in SPECIAL} & vocabulary.special.keys()
    encoder = encoder_of(vocabulary, LOOP, raw=True)
    plain = encoder_of(vocabulary, "<|im_start|>a: {x}<|im_end|><|im_start|>b: {y}<|im_end|> So?", "plain", raw=True)
    for scraps in (SCRAPS, HOSTILE):
        pairs = list(zip(texts(30, scraps), texts(30, scraps[::-1]), strict=True))
        rows = [{"turns": [{"role": "a", "text": x}, {"role": "b", "text": y}]} for x, y in pairs]
        found, expected = ids_of(encoder, rows), ids_of(plain, [{"x": x, "y": y} for x, y in pairs])
        kept = [[i for i in ids if i in control] for ids in expected]
        assert [[i for i in ids if i in control] for ids in found] == kept
        if scraps == SCRAPS:
            assert found == expected
    assert encoder.neutralised > 15


def test_two_values_do_not_make_a_special_token_together(make, chat_template):
    vocabulary, _ = make("gpt2", chat_template)
    encoder = encoder_of(vocabulary, "{{ a }}{{ b }}{% for x in c %}{{ x }}{% endfor %}{{ d | replace('!', '') }}")
    harmless, found = ids_of(
        encoder,
        [
            {"a": "x", "b": "x", "c": [], "d": ""},
            {"a": "<|im_", "b": "end|>", "c": ["<", "/s>"], "d": "<|im_!end|>"},
        ],
    )
    special = vocabulary.special
    assert [i for i in found if i in special] == [i for i in harmless if i in special]


def test_the_hot_prefix_is_the_text_before_the_first_value(real):
    vocabulary, _ = real
    encoder = encoder_of(vocabulary, "Rate the film from one to five stars.\n\n{% for t in texts %}{{ t }}{% endfor %}")
    assert encoder.how == "pieces"
    assert "Rate the film from one to five stars" in vocabulary.show(encoder.prefix)


def test_values_are_written_as_placeholders_write_them_and_others_as_json():
    source = "{{ a }} {{ b }} {{ c }} {{ d }} {{ e.f[0].g }} {{ h }}"
    values = {
        "a": True,
        "b": 1.5,
        "c": date(2024, 2, 29),
        "d": [1, None, "é"],
        "e": {"f": [{"g": "x"}]},
        "h": [("k", 1)],
    }
    assert rendered(source, **values) == 'true 1.5 2024-02-29 [1, null, "é"] x {"k": 1}'
    assert rendered(
        "{{ a | lower }} {{ a.strip() }} {{ a[:2] }} {{ a is defined }}", a=" Ab "
    ) == "ab  Ab  A true".replace("ab ", " ab ", 1)


def test_what_lists_and_texts_are_good_for():
    assert (
        rendered("{% for k, v in d.items() %}{{ loop.index }}{{ k }}={{ v }};{% endfor %}", d={"a": 1, "b": 2})
        == "1a=1;2b=2;"
    )
    assert (
        rendered("{{ x | map('upper') | join(', ') }} {{ x | length }} {{ 'a' in x }}", x=["a", "b"]) == "A, B 2 true"
    )
    assert rendered("{% for t in x if t != 'a' %}{{ t ~ 1 }}{% else %}none{% endfor %}", x=["a", "b"]) == "b1"
    assert (
        rendered(
            "{% set ns = namespace(n=0) %}{% for t in x %}{% set ns.n = ns.n + t %}{% endfor %}{{ ns.n }}", x=[1, 2]
        )
        == "3"
    )
    assert rendered("{{ x | tojson }} {{ (x or {}).b | default('none') }}", x={"a": "é"}) == '{"a": "é"} none'


def test_a_field_that_is_named_as_a_method_is_the_field_unless_it_is_called():
    row = {"items": ["a"], "keys": "b", "get": 1}
    assert rendered("{{ t.items }} {{ t.keys }} {{ t.get }} {{ t['items'] }}", t=row) == '["a"] b 1 ["a"]'
    assert (
        rendered("{% for x in t.items %}{{ x }}{% endfor %} {{ t.items() | length }} {{ t.get('keys') }}", t=row)
        == "a 3 b"
    )
    assert "it writes a builtin_function_or_method, which is no text" in fault("{{ t.values }}", t=row)


def test_a_template_without_columns_is_the_same_for_every_row(make):
    encoder = encoder_of(make("gpt2", "chatml")[0], "{% for i in range(3) %}{{ i }}{% endfor %} {{ submitted_at }}")
    (one,) = ids_of(encoder, [{}])
    assert make("gpt2", "chatml")[0].show(one).count("012 2024-02-29T12:30:00") == 1
    with pytest.raises(SpecError, match="division by zero"):
        encoder_of(make("gpt2", "chatml")[0], "{{ 1 / 0 }}")


def test_a_null_that_is_written_is_the_row_s_error_and_may_be_tested():
    assert fault("a\n{{ x }}", x=None).startswith(
        "The prompt's template fails in this row, line 2: a value that it writes is null"
    )
    assert rendered("{{ x or 'none' }}{% if x %}!{% endif %}", x=None) == "none"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ x", "line 1: unexpected end of template, expected 'end of print statement'"),
        ("a\n{% for %}", "line 2: "),
        ("\n\n{{ x | nope }}", "line 3: No filter named 'nope'"),
        ("{{ x | random }}", "line 1: No filter named 'random'"),
        ("{% include 'a' %}", "line 1: it has a Include, which a prompt's template may not have"),
        ("{% import 'a' as b %}", "which a prompt's template may not have"),
        ("{% extends 'a' %}", "which a prompt's template may not have"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "it has a Macro"),
        ("{% for x in y recursive %}{{ loop(x) }}{% endfor %}", "it has a recursive loop"),
        ("{{ " + "(" * 5000, ""),
        ("{% for x in y %}" * 30 + "{% endfor %}" * 30, ""),
    ],
)
def test_a_template_that_cannot_be_is_told_with_its_line(source, message):
    with pytest.raises(SpecError) as caught:
        JinjaTemplate.parse(source)
    assert str(caught.value).startswith("The prompt's template cannot be used: ")
    assert message in str(caught.value)


ESCAPES = [
    "{{ x.__class__ }}",
    "{{ x['__class__'] }}",
    "{{ x.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''.__class__.__base__ }}{{ x }}",
    "{{ x.format(x) }}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ x.format_map({}) }}",
    "{{ '%s' % x }}",
    "{{ range.__globals__ }}{{ x }}",
    "{{ namespace.__init__.__globals__ }}{{ x }}",
    "{{ namespace(__class__=x) }}",
    "{% set ns = namespace() %}{% set ns.__class__ = x %}",
    "{{ loop.__class__ }}{{ x }}",
    "{% for i in [1] %}{{ loop.__init__.__globals__ }}{{ x }}{% endfor %}",
    "{% for i in [1] %}{{ loop._iterator }}{{ x }}{% endfor %}",
    "{{ x | attr('__class__') }}",
    "{{ [x] | map(attribute='__class__') | list }}",
    "{{ [x] | map(attribute='__class__.__name__') | join }}",
    "{{ [x] | join(attribute='__class__') }}",
    "{{ [x] | sum(attribute='__class__') }}",
    "{{ [x, x] | sort(attribute='__class__') }}",
    "{{ [x] | groupby('__class__') }}",
    "{{ x.encode() }}",
    "{{ x.upper }}",
    "{{ x.upper.__self__ }}",
    "{{ cycler.__init__.__globals__ }}{{ x }}",
    "{{ lipsum.__globals__ }}{{ x }}",
    "{{ self.__init__ }}{{ x }}",
    "{{ self._TemplateReference__context }}{{ x }}",
    "{{ [].append(x) }}",
    "{{ {}.update(x) }}",
    "{{ [x].pop() }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_nothing_leads_out_of_a_template(source):
    """Names that are none of a template's are columns, and there is no such column."""
    try:
        columns = JinjaTemplate.parse(source).columns
    except SpecError:
        return
    assert "x" in columns
    for value in ("{0.__class__}", ["a"], {"a": None}):
        assert fault(source, x=value, loop=None, cycler=None, lipsum=None, self=None)


def test_a_value_that_no_template_can_take_is_its_row_s_error(make):
    encoder = encoder_of(make("gpt2", "chatml")[0], "{{ x }}")
    values = (b"a", "\ud800", {"\ud800": 1}, [object()], None, float("nan"))
    found = encoder.encode([Row(place, "", {"x": value}) for place, value in enumerate(values)])
    errors = [outcome.error_type if isinstance(outcome, Completion) else None for outcome in found]
    assert errors == ["wrong_type", "not_text", "not_text", "wrong_type", "template", None]
