from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.rows import Completion, Prompt, Status, Twin
from pipeline.twins import distinct, for_each_row

few_ids = st.lists(st.integers(1, 2), min_size=1, max_size=2).map(tuple)
prompts = st.lists(st.tuples(few_ids, few_ids), max_size=12).map(
    lambda rows: [Prompt(row_id, f"k{row_id}", own, target=target) for row_id, (own, target) in enumerate(rows)]
)


@given(prompts)
def test_every_row_is_in_one_prompt_with_all_that_are_the_same(rows: list[Prompt]) -> None:
    found = distinct(rows)
    assert sorted(row_id for prompt in found for row_id in prompt.row_ids) == [row.row_id for row in rows]
    assert len({(prompt.own_ids, prompt.target) for prompt in found}) == len(found)
    for prompt in found:
        assert {(rows[row_id].own_ids, rows[row_id].target) for row_id in prompt.row_ids} == {
            (prompt.own_ids, prompt.target)
        }


def test_what_is_alone_stays_as_it_is() -> None:
    rows = [Prompt(0, "a", (1, 2)), Prompt(1, "b", (1, 3)), Prompt(2, "c", (1, 2), target=(4,))]
    assert distinct(rows) == rows


def test_each_row_has_the_answer_under_its_own_key_and_one_is_found_again() -> None:
    prompt = Prompt(4, "a", (1, 2), cut_tokens=3, twins=(Twin(7, "b"), Twin(9, "c", 5)))
    answer = Completion(4, "a", Status.OK, "yes", prompt_tokens=12, reused_tokens=10, output_tokens=1, prompt_hash=b"1")
    own, *copies = for_each_row(prompt, answer)
    assert own == replace(answer, cut_tokens=3)
    assert copies == [
        replace(answer, row_id=7, key="b", reused_tokens=12, prompt_hash=None),
        replace(answer, row_id=9, key="c", reused_tokens=12, cut_tokens=5, prompt_hash=None),
    ]


def test_an_error_is_each_ones_and_nothing_of_it_was_reused() -> None:
    error = Completion(4, "a", Status.ERROR, error_type="engine", error="It broke.", prompt_tokens=12)
    assert for_each_row(Prompt(4, "a", (1,), twins=(Twin(7, "b"),)), error) == [
        error,
        replace(error, row_id=7, key="b"),
    ]
