from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipeline.costs import Costs
from pipeline.prefix_tree import additions, depth_first, distinct_tokens, find_cuts, with_cuts
from pipeline.rows import Choose, Embed, Generate, Prompt, Score

ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), max_size=40)
FREE = Costs(token_s=1.0, key_s=0.0, level_s=0.0, reader_s=0.0)
READ = replace(FREE, reader_s=0.1)


def cuts_of(rows, costs=FREE, steps=0, batch_rows=1000):
    return find_cuts(rows, costs, steps=steps, batch_rows=batch_rows)


def saved(rows, cuts, costs, steps):
    """By all nodes, counted row by row and not by the tree: seconds less the levels' own."""
    tokens = sum(map(len, rows))
    nodes = {
        row[:cut]: cut - above for row, found in zip(rows, cuts, strict=True) for above, cut in pairwise((0, *found))
    }
    alone = [len(row) - max(found, default=0) for row, found in zip(rows, cuts, strict=True)]
    once = tokens - sum(nodes.values()) - sum(alone)
    return once * (costs.token_s + steps * costs.key_s)


def test_one_instruction_over_documents_over_questions():
    instruction, documents = (1,) * 20, [(2, *range(30)), (3, *range(40))]
    rows = [instruction + document + (9, question) for question in range(3) for document in documents]
    assert cuts_of(rows, replace(READ, level_s=5.0)) == [(20, 52), (20, 62)] * 3


def test_where_levels_cost_nothing_every_prefix_of_two_rows_is_a_node():
    rows = [(7, 7, 1, 1, 5), (7, 7, 1, 1, 6), (7, 7, 2, 8), (9, 1)]
    assert cuts_of(rows) == [(2, 4), (2, 4), (2,), ()]


def test_where_levels_are_dear_none_is():
    rows = [(1,) * 500 + (place,) for place in range(500)]
    assert cuts_of(rows, replace(FREE, level_s=1e9)) == [()] * 500
    assert cuts_of(rows, replace(FREE, reader_s=1e9)) == [()] * 500


def test_a_level_is_made_as_soon_as_it_saves_more_than_it_costs():
    rows = [(1,) * 10 + (place,) for place in range(5)]
    assert cuts_of(rows, replace(FREE, level_s=39.9)) == [(10,)] * 5
    assert cuts_of(rows, replace(FREE, level_s=40.1)) == [()] * 5


def test_the_nodes_of_a_level_pay_for_it_together():
    documents = [(document,) * 10 for document in range(8)]
    rows = [(*document, 9, place) for document in documents for place in range(2)]
    dear = replace(FREE, level_s=60.0)
    assert cuts_of(rows, dear) == [(11,)] * 16
    assert cuts_of(rows[:8], dear) == [()] * 8


def test_a_level_is_paid_in_every_batch_and_at_every_step():
    rows = [(1,) * 10 + (place,) for place in range(20)]
    costs = replace(FREE, level_s=30.0)
    assert cuts_of(rows, costs, steps=5) == [(10,)] * 20
    assert cuts_of(rows, costs, steps=6) == [()] * 20
    assert cuts_of(rows, costs, steps=2, batch_rows=10) == [(10,)] * 20
    assert cuts_of(rows, costs, steps=2, batch_rows=5) == [()] * 20


def test_keys_that_rows_need_not_hold_for_themselves_count_at_every_step():
    rows = [(1,) * 10 + (place,) for place in range(20)]
    costs = Costs(token_s=1.0, key_s=0.2, level_s=30.0, reader_s=0.0)
    assert cuts_of(rows, costs, steps=1000) == [(10,)] * 20
    assert cuts_of(rows, replace(costs, key_s=0.1), steps=1000) == [()] * 20


def test_a_node_that_saves_too_little_leaves_its_tokens_to_those_below():
    rows = [(7, 7, 1, 1, 5), (7, 7, 1, 1, 6), (7, 7, 2, 8, 8, 8, 8, 8, 8, 8), (9, 1)]
    assert cuts_of(rows, replace(FREE, reader_s=0.1)) == [(2, 4), (2, 4), (2,), ()]
    assert cuts_of(rows, replace(FREE, reader_s=0.7)) == [(4,), (4,), (), ()]


def test_a_short_node_is_none_however_many_rows_are_below_it():
    rows = [(1, 2, *[place] * 30) for place in range(1000)]
    assert cuts_of(rows, READ) == [()] * 1000
    assert cuts_of(rows, replace(READ, reader_s=0.01)) == [(2,)] * 1000


def test_rows_that_are_the_same_keep_a_token_of_their_own():
    assert cuts_of([(1, 2, 3)] * 3) == [(2,)] * 3
    assert cuts_of([(1,)] * 3) == [()] * 3
    assert cuts_of([]) == []


@given(ROWS, st.floats(0, 1), st.floats(0, 20))
def test_rows_agree_up_to_their_common_cuts_and_lie_together(rows, reader_s, level_s):
    cuts = cuts_of(rows, replace(FREE, reader_s=reader_s, level_s=level_s))
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


@given(ROWS, st.floats(0, 20), st.integers(0, 5))
def test_all_levels_together_save_more_than_they_cost(rows, level_s, steps):
    costs = Costs(token_s=1.0, key_s=0.1, level_s=level_s, reader_s=0.0)
    cuts = cuts_of(rows, costs, steps=steps)
    levels = max(map(len, cuts), default=0)
    assert saved(rows, cuts, costs, steps) >= levels * level_s * (1 + steps)


def test_the_dearer_levels_are_the_fewer_there_are():
    rows = [
        (*range(20), *[100 + document] * 60, *[200 + chapter] * 30, 300 + question)
        for document in range(4)
        for chapter in range(3)
        for question in range(5)
    ]
    levels = [max(map(len, cuts_of(rows, replace(FREE, level_s=cost)))) for cost in (0, 1000, 1300, 2000, 4000, 9000)]
    assert levels == [3, 3, 2, 1, 1, 0]


def test_answers_count_as_long_as_they_may_be_and_labels_need_no_steps():
    prompts = [Prompt(place, str(place), (1,) * 10 + (place,)) for place in range(20)]
    costs = replace(FREE, level_s=30.0)
    cuts = lambda task: {prompt.cuts for prompt in with_cuts(prompts, costs, task, 1000)}  # noqa: E731
    assert cuts(Generate(6)) == {(10,)}
    assert cuts(Generate(7)) == {()}
    assert cuts(Choose(("a", "b"), ((1,), (2,)))) == {(10,)}
    assert cuts(Score()) == cuts(Embed("last")) == {(10,)}
    assert cuts(Embed("mean")) == {()}


def test_what_rows_share_counts_once():
    head = tuple(range(100))
    prompts = with_cuts(
        [Prompt(0, "a", (*head, 1, 1)), Prompt(1, "b", (7,)), Prompt(2, "c", (*head, 2))], FREE, Generate(1), 128
    )
    assert [(prompt.row_id, prompt.cuts, prompt.alone) for prompt in prompts] == [
        (0, (100,), 2),
        (2, (100,), 1),
        (1, (), 1),
    ]
    assert distinct_tokens(prompts) == 100 + 2 + 1 + 1


def test_a_row_adds_what_the_row_before_it_has_not():
    head, chapter = tuple(range(100)), tuple(range(50))
    rows = [(*head, *chapter, 7), (*head, *chapter, 8, 8), (*head, 9), (5, 5)]
    prompts = with_cuts(
        [Prompt(place, str(place), row) for place, row in enumerate(rows)],
        replace(FREE, level_s=60.0),
        Generate(1),
        128,
    )
    shared = {prompt.row_id: prompt.cuts for prompt in prompts}
    assert shared == {0: (100,), 1: (100,), 2: (100,), 3: ()}
    assert additions(prompts) == [(0, 151), (1, 52), (2, 1)]
