"""What a reader sees as one character is found from anywhere within it, without a walk from the text's start."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from pipeline.prompts.graphemes import cluster, is_boundary

SCRAPS = [
    *(
        "a",
        " ",
        "\r",
        "\n",
        "\r\n",
        "e\u0301",
        "\u0301",
        "\u200d",
        "\u200c",
        "\ufe0f",
        "👩‍👩‍👧",
        "👍🏽",
        "🇫🇷",
        "🇩",
        "한",
        "ᄒ",
        "ᅡ",
        "ᆫ",
    ),
    *("क्षि", "क", "\u094d", "\u0600", "1️⃣", "中", "。", "\U0001f3f4\U000e0067\U000e007f", "\ud800", "ก็"),
]
texts = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=3), max_size=12).map("".join)


@given(texts)
def test_clusters_are_those_of_the_whole_text(text):
    whole = [found.span() for found in regex.finditer(r"\X", text)]
    assert [cluster(text, at) for at in range(len(text))] == [span for span in whole for _ in range(*span)]
    starts = {0, len(text), *(start for start, _ in whole)}
    assert [is_boundary(text, at) for at in range(len(text) + 1)] == [at in starts for at in range(len(text) + 1)]


@pytest.mark.parametrize("text", ["🇫🇷\n" * 300_000, "👩‍👩‍👧" * 100_000, "क्षि" * 200_000, "e\u0301" * 500_000])
def test_in_a_long_text_only_what_stands_near_is_looked_at(text):
    for at in range(1, len(text), len(text) // 20):
        start, end = cluster(text, at)
        assert start <= at < end <= start + 5


def test_a_known_start_saves_the_walk_through_what_has_no_other():
    assert cluster("🇫🇷" * 500_000, 900_001, known=899_998) == (900_000, 900_002)


def test_a_million_marks_on_one_letter_are_one_cluster():
    assert cluster("a" + "\u0301" * 1_000_000, 500_000) == (0, 1_000_001)
