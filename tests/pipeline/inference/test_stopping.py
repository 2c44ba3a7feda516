from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.inference.stopping import StopRule


def decode(token_ids):
    return bytes(token_ids).decode(errors="replace")


def by_bytes_alone(token_ids):
    """As byte fallback has it: of bytes that are no text together, none is read. From 256 on, ids have no text."""
    try:
        return bytes(token for token in token_ids if token < 256).decode()
    except UnicodeDecodeError:
        return "\ufffd" * len(token_ids)


def ids(text):
    return list(text.encode())


def test_a_stop_token_ends_the_answer_and_is_not_part_of_it():
    rule = StopRule(frozenset({0}), (), decode)
    assert not rule.stops(ids("ab"))
    assert rule.stops([*ids("ab"), 0])
    assert rule.text([*ids("ab"), 0]) == "ab"


def test_a_stop_string_may_span_tokens_and_is_cut_with_all_that_follows():
    rule = StopRule(frozenset(), ("\n\n", "END"), decode)
    assert not rule.stops(ids("one\n"))
    assert rule.stops(ids("one\n\n"))
    assert rule.text(ids("one\n\n")) == "one"
    assert rule.text(ids("oneENDtwo\n\n")) == "one"


def test_a_long_answer_is_looked_at_from_its_end_only():
    rule = StopRule(frozenset(), ("é!",), decode)
    assert rule.stops(ids("x" * 500 + "é!"))
    assert not rule.stops(ids("é!" + "x" * 500))


@settings(max_examples=50)
@given(st.text("né日👍🏽 x", max_size=40), st.sampled_from(["日", "👍🏽", "x é", "\U0001f1e9\U0001f1ea"]))
def test_a_stop_string_is_found_with_its_last_byte_wherever_characters_are_divided(text, stop):
    rule, token_ids = StopRule(frozenset(), (stop,), decode), ids(text + stop)
    first = next(end for end in range(1, len(token_ids) + 1) if stop in decode(token_ids[:end]))
    assert [rule.stops(token_ids[:end]) for end in range(1, first + 1)] == [False] * (first - 1) + [True]
    assert rule.text(token_ids[:first]) == decode(token_ids[:first]).removesuffix(stop)


def test_tokens_without_text_hide_no_stop_string():
    rule = StopRule(frozenset(), ("END",), lambda token_ids: decode([token for token in token_ids if token < 256]))
    token_ids = [*ids("foo EN"), *[256] * 10, *ids("D")]
    assert [rule.stops(token_ids[:end]) for end in range(1, len(token_ids) + 1)] == [False] * 16 + [True]
    assert rule.text(token_ids) == "foo "


def test_a_token_that_is_a_space_has_text_although_it_is_dropped_at_a_beginning():
    pieces = ["E", " ", "N"]
    rule = StopRule(
        frozenset(), ("E  N",), lambda token_ids: "".join(pieces[token] for token in token_ids).removeprefix(" ")
    )
    assert rule.stops([0, 1, 1, 2])
    assert not rule.stops([0, 1, 2])


def test_half_a_character_where_the_look_begins_hides_no_stop_string():
    rule = StopRule(frozenset(), ("。",), by_bytes_alone)
    for before in range(8):
        assert rule.stops([*ids("日" * before), *ids("。")])


def test_an_empty_answer_is_the_empty_text():
    assert StopRule(frozenset({0}), (), decode).text([0]) == ""
    assert StopRule(frozenset({0}), (), decode).text([]) == ""
