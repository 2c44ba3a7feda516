"""A text is cut between sentences, else between words, else between characters."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.prompts.breaks import end_near, sentences, start_near
from pipeline.prompts.graphemes import is_boundary

SCRAPS = [
    "The film. ",
    "why?! ",
    "“No.” ",
    "word ",
    "中文。",
    "\n\n",
    "e\u0301",
    "👩‍👩‍👧",
    "\u0301",
    "🇫🇷",
    "x" * 30,
    "... ",
    " ",
]
texts = st.lists(st.sampled_from(SCRAPS), min_size=1, max_size=30).map("".join)


@given(texts, st.data())
def test_no_character_is_cut_in_two_and_no_limit_is_passed(text, data):
    end = data.draw(st.integers(0, len(text)))
    found = end_near(text, 0, end)
    assert found <= end + 1
    assert is_boundary(text, found)
    start = data.draw(st.integers(0, len(text)))
    found = start_near(text, start, len(text))
    assert start <= found <= len(text)
    assert is_boundary(text, found)


@given(texts)
def test_sentences_are_all_of_the_text(text):
    found = sentences(text)
    assert "".join(text[start:end] for start, end in found) == text
    assert [start for start, _ in found] == [0, *(end for _, end in found[:-1])]
    assert all(start < end and is_boundary(text, start) for start, end in found)


def test_what_is_no_sentence_is_taken_apart():
    assert max(end - start for start, end in sentences("word " * 1000)) <= 400
    assert max(end - start for start, end in sentences("中" * 5000)) <= 400


@pytest.mark.parametrize(
    ("text", "end", "kept"),
    [
        ("It was good. I liked it all. The end", 30, "It was good. I liked it all."),
        ("It was good. I liked it all. The end", 28, "It was good. I liked it all."),
        ("It was good. I liked it all the time and more", 40, "It was good. I liked it all the time and"),
        ("very very long words without a stop", 12, "very very"),
        ("中文很好。日本語もあります。한", 14, "中文很好。日本語もあります。"),
        ("x" * 50, 20, "x" * 20),
        ("a👩‍👩‍👧b", 3, "a"),
        ("short", 10, "short"),
    ],
)
def test_an_end_is_that_of_a_sentence_a_word_or_a_character(text, end, kept):
    assert text[: end_near(text, 0, end)] == kept


@pytest.mark.parametrize(
    ("text", "start", "kept"),
    [
        ("It was good. I liked it all. The end", 27, "The end"),
        ("It was good. I liked it all. The end of it is here now.", 25, "The end of it is here now."),
        ("It was good. I liked it all the time and more", 8, "I liked it all the time and more"),
        ("very very long words without a stop", 12, "words without a stop"),
        ("x" * 50, 20, "x" * 30),
        ("a👩‍👩‍👧bcdefg", 3, "bcdefg"),
        ("short", 0, "short"),
    ],
)
def test_a_start_is_that_of_a_sentence_a_word_or_a_character(text, start, kept):
    assert text[start_near(text, start, len(text)) :] == kept


def test_a_space_that_carries_a_mark_is_no_break():
    text = "x" * 20 + " \u0301" + "y" * 50
    assert text[start_near(text, 20, len(text)) :] == " \u0301" + "y" * 50


def test_a_space_that_a_sign_before_it_covers_stays_with_it():
    text = "word word\u0600 more words"
    assert text[: end_near(text, 0, 11)] == "word word\u0600 "


def test_what_is_too_short_to_be_a_sentence_goes_with_the_next():
    text = "Dr. Schneider came. 1. She sang well. "
    assert [text[start:end] for start, end in sentences(text)] == ["Dr. Schneider came. ", "1. She sang well. "]


def test_an_end_is_found_where_the_least_is_amid_the_dots():
    text = "x" * 30 + "." * 30 + " and more words"
    assert text[: end_near(text, 0, 66)] == "x" * 30 + "." * 30


@pytest.mark.parametrize("scrap", [".", "!", "…", "。.", "\u0600。\u0301", "\u0600 \u0301", ".)", "\n", " "], ids=ascii)
def test_a_long_run_is_looked_through_once(scrap):
    text = (scrap * 60_000)[:60_000] + "a"
    begun = time.process_time()
    assert sentences(text)[-1][1] == len(text)
    assert 0 <= end_near(text, 0, 50_000) <= 50_001
    assert 0 < start_near(text, 10_000, len(text)) <= len(text)
    assert time.process_time() - begun < 5  # it took minutes when each looked on to the run's end
