from dataclasses import replace

import pytest

from pipeline.excerpt import encode_excerpt
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.means import load_means
from pipeline.order import Order
from pipeline.reordering import best_reordering
from pipeline.rows import Row
from pipeline.settings import Settings
from pipeline.spec import build_spec

DOCUMENTS = ["A review of a lamp that broke. " * 8, "A letter to a friend about a film. " * 8]
ROWS = [
    Row(place, str(place), {"id": f"{place:x}", "question": f"{place}?", "document": DOCUMENTS[place % 2]})
    for place in range(40)
]
PROMPT = "Read it. {id} {question} Document: {document}"


@pytest.fixture(scope="module")
def asked(tiny_model, tmp_path_factory):
    """What is asked of a prompt, and the share that is reused as it stands."""
    home = tmp_path_factory.mktemp("home")

    def ask(prompt, rows=ROWS, order=None, **fields):
        given = {"inputs": "-", "model": str(tiny_model), "prompt": prompt, "raw": True, "choices": "a,b"}
        spec = build_spec(given | fields)
        means = load_means(spec, resolve_checkpoint(spec.model), Settings(home=home))
        as_it_is = encode_excerpt(spec, means.vocabulary, means.model.context, rows).reused(means.costs, 128)
        return as_it_is, best_reordering(spec, means, rows, 128, lambda shape: order)

    return ask


def test_the_column_that_rows_share_most_of_is_found_and_what_it_would_save(asked):
    as_it_is, better = asked(PROMPT)
    assert better.column == "document"
    assert better.reused > 0.8 > 0.2 > as_it_is
    assert asked("Read it. {document}{id} {question} Document: ")[0] == better.reused


def test_what_sorting_by_it_would_save_counts(asked):
    rows = [replace(row, values={**row.values, "document": f"{row.row_id:x}" * 40}) for row in ROWS[:10]]
    assert asked(PROMPT, rows)[1].reused < 0.5
    assert asked(PROMPT, rows, Order("document", kept=0.1, sorted=0.9))[1].reused == 0.9


def test_the_first_column_cannot_come_earlier(asked):
    assert asked("{document}")[1] is None
    _, better = asked("{document} {question}")
    assert better.column == "question"


def test_rows_of_the_same_prompt_are_reused_whole_but_for_one(asked):
    rows = [Row(place, str(place), {"question": "Who?"}) for place in range(10)]
    assert asked("{question}", rows)[0] == pytest.approx(0.9)
    assert asked("{question}", rows, dedupe=False)[0] < 0.9


def test_a_mean_shares_nothing_in_any_order(asked):
    as_it_is, better = asked(PROMPT, choices=None, embed="mean")
    assert (as_it_is, better.reused) == (0, 0)
