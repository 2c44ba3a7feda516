import datetime
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import RowError, SpecError
from pipeline.prompts.template import Field, Literal, Template
from pipeline.rows import Row


def row(**values):
    return Row(0, "0", values)


def filled(text, **values):
    template = Template.parse(text)
    return template.fill(template.values(row(**values)))


def test_a_template_is_literals_and_fields():
    template = Template.parse("Rate {text} by {{author}}: {review text}, {text}!")
    assert template.segments == (
        Literal("Rate "),
        Field("text"),
        Literal(" by {author}: "),
        Field("review text"),
        Literal(", "),
        Field("text"),
        Literal("!"),
    )
    assert template.columns == ("text", "review text")


def test_a_prompt_may_have_no_column():
    assert Template.parse("Tell me a joke").columns == ()
    assert filled("Tell {{me}} a joke") == "Tell {me} a joke"


def test_braces_about_a_column():
    assert filled("{{{a}}}", a="x") == "{x}"
    assert filled('{{"label": "{a}"}}', a="x") == '{"label": "x"}'


@pytest.mark.parametrize(
    ("text", "where", "advice"),
    [
        ("Say {", "character 5", 'lone "{"'),
        ("a } b", "character 3", 'Write "}}"'),
        ("{a}}", "character 4", 'lone "}"'),
        ("Say { }", "character 5", "empty placeholder"),
        ("{}", "character 1", "Name a column"),
        ("{a.b!r:>3}", "character 1", "column's name alone"),
        ("x {price:.2f}", "character 3", "column's name alone"),
        ("{a[0]}", "character 1", "column's name alone"),
        ('Give {"label": 1}', "character 6", 'write "{{" and "}}"'),
    ],
)
def test_faults_name_the_place_and_the_way_out(text, where, advice):
    with pytest.raises(SpecError) as error:
        Template.parse(text)
    assert where in str(error.value)
    assert advice in str(error.value)


def test_an_empty_prompt_is_refused():
    with pytest.raises(SpecError, match="empty"):
        Template.parse("")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        (" a\n", " a\n"),
        (7, "7"),
        (2.5, "2.5"),
        (True, "true"),
        (False, "false"),
        (decimal.Decimal("1.50"), "1.50"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 13, 5), "2024-02-29T13:05:00"),
        (datetime.time(13, 5), "13:05:00"),
    ],
)
def test_scalars_become_text(value, text):
    assert filled("<{a}>", a=value) == f"<{text}>"


@pytest.mark.parametrize(
    ("value", "error_type", "said"),
    [
        (None, "null", 'column "a" is null'),
        (b"x", "wrong_type", "bytes"),
        (
            ["x"],
            "wrong_type",
            "a value of type list in this row. A prompt takes text, numbers, true or false, and dates; "
            "name what is in it, such as a.0.",
        ),
        ({"b": 1}, "wrong_type", "name what is in it, such as a.b."),
        ({}, "wrong_type", "dates; turn it into text."),
        ("ab\ud83d", "not_text", "character 3"),
    ],
)
def test_other_values_are_the_row_s_error(value, error_type, said):
    with pytest.raises(RowError) as error:
        filled("{a}", a=value)
    assert error.value.error_type == error_type
    assert said in str(error.value)
    assert '"a"' in str(error.value)


def test_a_value_is_never_read_as_a_template():
    assert filled("{a} {b}", a="{b}{{", b="{a}") == "{b}{{ {a}"


@given(st.text(min_size=1))
def test_any_text_can_be_written_with_doubled_braces(text):
    assert filled(text.replace("{", "{{").replace("}", "}}")) == text


def test_a_column_is_brought_before_all_others_and_no_text_is_lost():
    template = Template.parse("Look: {a}, {{b}} {b} and {b}.")
    assert template.led_by("b").fill({"a": "1", "b": "2"}) == "Look: 21, {b}  and 2."
    assert template.led_by("b").segments[0] == template.segments[0]
    assert template.led_by("a") == template
    assert Template.parse("{a}{b}").led_by("b") == Template.parse("{b}{a}")
