from hypothesis import given
from hypothesis import strategies as st

from pipeline.prefix_tree import additions, depth_first, distinct_tokens, find_cuts, with_cuts
from pipeline.rows import Prompt

ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), max_size=40)


def test_one_instruction_over_documents_over_questions():
    instruction, documents = (1,) * 20, [(2, *range(30)), (3, *range(40))]
    rows = [instruction + document + (9, question) for question in range(3) for document in documents]
    assert find_cuts(rows, min_saved=10, min_length=1) == [(20, 52), (20, 62)] * 3


def test_a_node_that_saves_too_little_is_none_and_its_tokens_count_for_those_below():
    rows = [(7, 7, 1, 1, 5), (7, 7, 1, 1, 6), (7, 7, 2, 8), (9, 1)]
    assert find_cuts(rows, min_saved=4, min_length=1) == [(2,), (2,), (2,), ()]
    assert find_cuts(rows, min_saved=2, min_length=1) == [(2, 4), (2, 4), (2,), ()]
    assert find_cuts(rows[:2], min_saved=4, min_length=1) == [(4,), (4,)]
    assert find_cuts(rows, min_saved=100, min_length=1) == [()] * 4


def test_a_short_node_is_none_however_many_rows_are_below_it():
    rows = [(1, 2, place) for place in range(1000)]
    assert find_cuts(rows, min_saved=1, min_length=3) == [()] * 1000
    assert find_cuts(rows, min_saved=1, min_length=2) == [(2,)] * 1000


def test_rows_that_are_the_same_keep_a_token_of_their_own():
    assert find_cuts([(1, 2, 3)] * 3, min_saved=1, min_length=1) == [(2,)] * 3
    assert find_cuts([(1,)] * 3, min_saved=1, min_length=1) == [()] * 3
    assert find_cuts([], min_saved=1, min_length=1) == []


@given(ROWS, st.integers(1, 20))
def test_rows_agree_up_to_their_common_cuts_and_lie_together(rows, min_saved):
    cuts = find_cuts(rows, min_saved, min_length=1)
    for row, found in zip(rows, cuts, strict=True):
        assert list(found) == sorted(set(found))
        assert all(0 < cut < len(row) for cut in found)
    nodes = {}
    for place in depth_first(rows):
        for cut in cuts[place]:
            nodes.setdefault(rows[place][:cut], []).append(depth_first(rows).index(place))
    for members in nodes.values():
        assert members == list(range(members[0], members[-1] + 1))
        assert len(members) > 1


@given(ROWS, st.integers(1, 20))
def test_every_node_saves_what_it_must(rows, min_saved):
    cuts = find_cuts(rows, min_saved, min_length=1)
    saved = {}
    for row, found in zip(rows, cuts, strict=True):
        for above, cut in zip((0, *found), found, strict=False):
            saved[row[:cut]] = saved.get(row[:cut], above - cut) + cut - above
    assert all(tokens >= min_saved for tokens in saved.values())


def test_what_rows_share_counts_once():
    head = tuple(range(100))
    prompts = with_cuts([Prompt(0, "a", (*head, 1, 1)), Prompt(1, "b", (7,)), Prompt(2, "c", (*head, 2))])
    assert [(prompt.row_id, prompt.cuts, prompt.alone) for prompt in prompts] == [
        (0, (100,), 2),
        (2, (100,), 1),
        (1, (), 1),
    ]
    assert distinct_tokens(prompts) == 100 + 2 + 1 + 1


def test_a_row_adds_what_the_row_before_it_has_not():
    head, chapter = tuple(range(100)), tuple(range(50))
    rows = [(*head, *chapter, 7), (*head, *chapter, 8, 8), (*head, 9), (5, 5)]
    prompts = with_cuts([Prompt(place, str(place), row) for place, row in enumerate(rows)])
    shared = {prompt.row_id: prompt.cuts for prompt in prompts}
    assert shared == {0: (100,), 1: (100,), 2: (100,), 3: ()}
    assert additions(prompts) == [(0, 151), (1, 52), (2, 1)]
