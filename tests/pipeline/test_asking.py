"""Each question of a row as a prompt of its own, held to those of a job that asks nothing else."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from pipeline.asking import Asking
from pipeline.buckets import Budget
from pipeline.costs import usual_costs
from pipeline.encoding import grouped
from pipeline.errors import SpecError
from pipeline.prefix_tree import distinct_tokens
from pipeline.prompts.shapes import columns_of
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Completion, Embed, Generate, Prompt, Row, Score, task_of
from pipeline.sharing import foretell
from pipeline.spec import build_spec

FIELDS = {"inputs": "a.csv", "model": "m", "prompt": "Review: {text}\n"}
QUESTIONS = {
    "mood": {"prompt": "Good or bad?", "choices": ["good", "bad"]},
    "gist": {"prompt": "In short:", "max_tokens": 4},
    "fit": {"prompt": "{thing}:", "score": "title"},
    "place": {"embed": "mean"},
}
ROWS = [
    Row(place, f"k{place}", {"text": text, "thing": thing, "title": "A title"})
    for place, (text, thing) in enumerate([("a" * 90, "cup"), ("bb", None), (None, "pen"), ("bb", "cup")])
]
NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def asking(tiny_model) -> Callable[..., Asking]:
    def ask(context: int = 512, **fields: object) -> Asking:
        return Asking(build_spec(FIELDS | fields), Vocabulary(tiny_model), context, NOW, ROWS)

    return ask


@pytest.mark.parametrize("manner", [{"raw": True}, {"system": "Be kind."}, {"prompt": "The same for all. "}])
def test_prompts_are_those_of_a_job_for_each_question(asking, manner):
    several = asking(questions=QUESTIONS, **manner)
    found = {outcome.row_id: outcome for outcome in several.ask(ROWS)}
    assert sorted(found) == list(range(len(ROWS) * len(QUESTIONS)))
    for place, question in enumerate(QUESTIONS.values()):
        prompt = manner.get("prompt", FIELDS["prompt"]) + question.get("prompt", "")
        alone = asking(**(manner | question | {"prompt": prompt}))
        for expected in alone.ask(ROWS):
            outcome = found[expected.row_id * len(QUESTIONS) + place]
            assert (type(outcome), outcome.key) == (type(expected), expected.key)
            if isinstance(expected, Prompt):
                assert several.prefix + outcome.own_ids == alone.prefix + expected.own_ids
                assert outcome.target == expected.target
            else:
                assert (outcome.error_type, outcome.error) == (expected.error_type, expected.error)
    assert {outcome.row_id for outcome in found.values() if isinstance(outcome, Completion)} >= {6}


def test_of_one_row_some_questions_are_asked_again(asking):
    several = asking(questions=QUESTIONS)
    again = several.ask(ROWS[:1], {1, 3, 4})
    assert again == [outcome for outcome in several.ask(ROWS) if outcome.row_id in (1, 3)]


def test_the_same_prompt_of_another_question_is_no_twin(asking):
    same = {"a": {"max_tokens": 4}, "b": {"max_tokens": 5}}
    several = asking(questions=same, raw=True)
    prompts = [outcome for outcome in several.ask(ROWS) if isinstance(outcome, Prompt)]
    assert [prompt.row_ids for prompt in several.distinct(prompts)] == [(0,), (2, 6), (1,), (3, 7)]
    apart = asking(questions=same | {"b": {"temperature": 1, "max_tokens": 5}}, raw=True)
    assert [prompt.row_ids for prompt in apart.distinct(prompts)] == [(0,), (2, 6), (1,), (3,), (7,)]


def test_a_row_is_one_node_above_its_questions_and_is_not_divided_between_batches(asking):
    questions = {name: QUESTIONS[name] for name in ("mood", "gist")} | {"why": {"prompt": "Why?", "max_tokens": 9}}
    several = asking(questions=questions, raw=True)
    rows = [Row(place, str(place), {"text": letter * 60}) for place, letter in enumerate("abcde")]
    prompts = [outcome for outcome in several.ask(rows) if isinstance(outcome, Prompt)]
    groups = grouped(prompts, usual_costs("cpu"), several.task, Budget(8, 10_000))
    assert [sorted(batch.row_ids) for batch, _ in groups] == [[*range(6)], [*range(6, 12)], [12, 13, 14]]
    asked = sum(len(question["prompt"]) for question in questions.values())
    shared = [prompt for _, batch in groups for prompt in batch]
    assert {len(prompt.cuts) for prompt in shared} == {1}
    assert distinct_tokens(shared) == foretell(several.prefix, shared, several.task).computed_tokens
    # The prefix may end before the last word that all rows begin with, whose tokens then are the node's.
    assert distinct_tokens(shared) == 5 * (len("Review: \n") - len(several.prefix) + 60 + asked)


def test_what_needs_a_whole_prompt_shares_nothing_and_what_is_written_counts_by_itself(asking):
    several = asking(questions=QUESTIONS | {"tale": {"prompt": "Tell:", "max_tokens": 4, "temperature": 1, "n": 3}})
    tasks = [type(task_of(several.task, row_id)) for row_id in range(1, 4)]
    assert tasks == [Generate, Score, Embed]
    prompts = [outcome for outcome in several.ask(ROWS[:1]) if isinstance(outcome, Prompt)]
    groups = grouped(prompts, usual_costs("cpu"), several.task, Budget(100, 10_000))
    batch = [prompt for _, some in groups for prompt in some]
    assert {prompt.row_id: bool(prompt.cuts) for prompt in batch} == {0: True, 1: True, 2: True, 3: False, 4: True}
    whole = [len(several.prefix) + len(prompt.own_ids) for prompt in sorted(batch, key=lambda each: each.row_id)]
    assert foretell(several.prefix, batch, several.task).prompt_tokens == sum(whole) + 2 * whole[4]


def test_a_text_that_is_cut_is_cut_alike_for_all_questions(asking):
    """Of the end that is kept, the question that needs most room leaves least."""
    questions = {"mood": {"prompt": "?", "choices": ["good", "bad"]}, "gist": {"prompt": " in short:", "max_tokens": 9}}
    several = asking(context=80, questions=questions, raw=True, on_too_long="tail")
    text = " ".join(f"w{number}" for number in range(40))
    mood, gist = several.ask([Row(0, "k", {"text": text})])
    assert min(mood.cut_tokens, gist.cut_tokens) > len(text) - 80
    kept = len(gist.own_ids) - len(" in short:")
    assert len(several.prefix) + len(gist.own_ids) <= 80 - 9
    assert mood.own_ids[:kept] == gist.own_ids[:kept]
    assert len(mood.own_ids) == kept + 1
    assert several.ask([Row(0, "k", {"text": text})], {0}) == [mood]
    (alone,) = asking(
        context=80, prompt="Review: {text}\n?", choices=["good", "bad"], raw=True, on_too_long="tail"
    ).ask([Row(0, "k", {"text": text})])
    assert alone.cut_tokens < mood.cut_tokens


def test_a_fault_that_only_a_tokenizer_shows_names_its_question(asking):
    with pytest.raises(SpecError, match='Question "b": The choice "no" is the beginning of the choice "not"'):
        asking(questions={"a": {}, "b": {"choices": "no,not"}})
    with pytest.raises(SpecError, match='Question "b": The prompt has a lone'):
        columns_of(build_spec(FIELDS | {"questions": {"a": {}, "b": {"prompt": "{"}}}))
