"""A column's text is cleaned of what a job names, and of nothing that a script or an emoji is written with."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.prompts.cleaning import Cleaning
from pipeline.rows import Row

BARE, ENTITIES = Cleaning(strip_invisible=True), Cleaning(unescape_html=True)
AS_THEY_ARE = [
    *(
        "\ufffd\ufffd",
        "مرحبا \u202bبالعالم\u202c",
        "e\u0301\u0323",
        "\u200b\ufeff\x00\x07",
        "&lt;b&gt;",
        "👩‍👩‍👧",
        "ﬁ①",
        "\u05e9\u05c1\u200f",
    ),
    *("a\u00ad\u2060b", "\U000e0041", "می‌خواهم"),
]


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_by_itself_nothing_is_changed(text, make, encoder_for):
    assert Cleaning().clean(text) == text
    encoder = encoder_for(make("gpt2")[0], "{text}", raw=True)
    assert encoder.values(Row(0, "0", {"text": text})) == {"text": text}


@given(st.text())
def test_nothing_at_all_is_changed_by_itself(text):
    assert Cleaning().clean(text) == text


@given(st.text(alphabet="ae\u0301\u0323\u0327ﬁ①Å\u212bﷺ한ᄒ\u1161"), st.sampled_from(["nfc", "nfkc"]))
def test_a_text_is_brought_into_the_form_asked_for(text, form):
    assert Cleaning(normalize=form).clean(text) == unicodedata.normalize(form.upper(), text)


def test_a_hundred_thousand_marks_on_one_letter_take_no_longer_than_others():
    clean = Cleaning(normalize="nfc").clean("e" + "\u0301\u0323" * 50_000)
    assert clean.startswith("\u1eb9\u0323")
    assert "\u0301\u0323" in clean  # no more than 256 of them were put in order together
    assert clean.count("\u0301") == 50_000


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\u200bb\ufeffc\u2060d\u00ade", "abcde"),
        ("\x00a\x07b\x1b[0m\x7f\x9b", "ab[0m"),
        ("a\tb\nc\r\nd\u00a0e\u2028f\x0cg\x85h", "a\tb\nc\r\nd\u00a0e\u2028f\x0cg\x85h"),
        ("\u202eevil\u202c \u2066x\u2069 \u200fא\u200e", "evil x א"),
        ("ig\U000e0069\U000e0067nore\U000e007f", "ignore"),
        ("a\u200db c\u200cd \u200d", "ab cd "),
        ("a\ufe0f\ufe00\U000e0100\U000e0101b", "a\ufe0fb"),
        (" \ufe0f\U000e0100", " "),
        ("\u061c\u06dd١", "\u06dd١"),
    ],
)
def test_what_cannot_be_seen_is_taken_out(text, clean):
    assert BARE.clean(text) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [("x\ufe0f", "x\ufe0f"), ("\ufe0f", ""), ("क\u200d", "क\u200d"), ("\u200d", ""), ("क\u093c", None)],
    ids=ascii,
)
def test_a_long_run_is_looked_through_once(text, clean):
    run = text + text[-1] * 60_000
    begun = time.process_time()
    assert BARE.clean(run) == (run if clean is None else clean)
    assert time.process_time() - begun < 5  # it took minutes when each looked back at all


@pytest.mark.parametrize(
    "text",
    [
        *(
            "👩‍👩‍👧",
            "👩🏽‍🚀",
            "🏳️‍🌈",
            "👁️‍🗨️",
            "❤️",
            "1️⃣",
            "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            "🇫🇷",
        ),
        *("می‌خواهم", "کتاب‌ها", "क्‍ष", "क्‌ष", "র‍্য", "ක්‍ෂ", "ന്‍", "ᠰᠠᠶ\u180eᠠ", "ᠠ\u180b", "葛\U000e0100"),
        *("مَ‌ن", "한글ᄒ\u1160", "e\u0301", "\ufffd\ufffd", "\ud800"),
    ],
)
def test_what_shapes_a_script_or_an_emoji_stays(text):
    assert BARE.clean(text) == text


@given(st.text(alphabet="aम्क👩🏽🏴\u200d\u200c\u200b\ufe0f\U000e0067\U000e007f\x00\u0301ی \n"))
def test_taking_out_is_done_at_once_and_takes_nothing_else(text):
    clean = BARE.clean(text)
    assert BARE.clean(clean) == clean
    assert [c for c in clean if c in "aम्क👩🏽🏴\u0301ی \n"] == [c for c in text if c in "aम्क👩🏽🏴\u0301ی \n"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("&lt;b&gt; &amp; &eacute; &#233; &#xE9; &#X1F600; &nbsp;&hellip;", "<b> & é é é 😀 \u00a0…"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        (
            "AT&T ?a=1&copy=2&lt=3 &notit; &nosuch; & &; &#; &#x;",
            "AT&T ?a=1&copy=2&lt=3 &notit; &nosuch; & &; &#; &#x;",
        ),
        ("&#0;&#xD800;&#9999999;", "\ufffd\ufffd\ufffd"),
        (f"&#{'9' * 5000};", f"&#{'9' * 5000};"),
    ],
)
def test_entities_become_characters_once(text, clean):
    assert ENTITIES.clean(text) == clean


def test_entities_go_first_as_they_may_stand_for_the_others():
    cleaning = Cleaning("nfc", strip_invisible=True, unescape_html=True)
    assert cleaning.clean("e&#x301;&ZeroWidthSpace;&shy;&#7;!") == "é!"


def test_a_special_token_that_entities_spell_is_neutralised(make, encoder_for):
    vocabulary, _ = make("gpt2")
    encoder = encoder_for(vocabulary, "Say {text}", raw=True, cleaning=ENTITIES)
    (written,) = encoder.encode([Row(0, "0", {"text": "&lt;|im_end|&gt;"})])
    (typed,) = encoder_for(vocabulary, "Say {text}", raw=True).encode([Row(0, "0", {"text": "<|im_end|>"})])
    assert written == typed
    assert encoder.neutralised == 1


def test_keys_and_prompts_are_not_touched(make, encoder_for):
    encoder = encoder_for(make("gpt2")[0], "&amp;{text}", raw=True, cleaning=ENTITIES)
    (found,) = encoder.encode([Row(0, "&amp;", {"text": "&amp;"})])
    assert found.key == "&amp;"
    (plain,) = encoder_for(make("gpt2")[0], "&amp;{text}", raw=True).encode([Row(0, "&amp;", {"text": "&"})])
    assert found == plain
