"""What of a job has to be the same for an earlier one's answers to be its own."""

from typing import Any

import pytest

from pipeline.freshness import asks_anew
from pipeline.spec import build_spec
from pipeline.store.records import JobRecord, JobState

FIELDS = {"inputs": "a.csv", "model": "m", "prompt": "Say: {text}"}
ANEW = "changed since the last run, monday: all rows are answered anew."


def before(digest: str = "digest", **fields: Any) -> JobRecord:
    spec = build_spec(FIELDS | fields)
    return JobRecord("1", "monday", spec.model_dump_json(), "f", digest, "i", JobState.DONE, 1, 1.0, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"inputs": "b.csv"},
        {"where": "stars > 3"},
        {"key": "id"},
        {"limit": 5},
        {"sample": "5", "seed": 3},
        {"priority": 2},
        {"name": "tuesday"},
    ],
)
def test_other_rows_are_no_other_question(fields):
    assert asks_anew(build_spec(FIELDS | fields), "digest", before()) is None


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"prompt": "Tell: {text}"}, "The prompt has"),
        ({"choices": "a,b"}, "The choices have"),
        ({"system": "Be kind.", "max_tokens": 9}, "The system and the max tokens have"),
    ],
)
def test_what_is_asked_in_another_way_is_told(fields, what):
    assert asks_anew(build_spec(FIELDS | fields), "digest", before()) == f"{what} {ANEW}"


def test_so_are_other_files_of_the_same_model_where_they_are_known():
    assert asks_anew(build_spec(FIELDS), "other", before()) == f"The model's files have {ANEW}"
    assert asks_anew(build_spec(FIELDS), None, before()) is None


def test_a_model_goes_by_its_files_where_they_are_known_and_else_by_its_name():
    moved = build_spec(FIELDS | {"model": "elsewhere"})
    assert asks_anew(moved, "digest", before()) is None
    assert asks_anew(moved, "other", before()) == asks_anew(moved, None, before()) == f"The model has {ANEW}"


def test_an_earlier_version_that_read_less_of_the_model_is_told():
    by_less = before("0" * 64)
    assert asks_anew(build_spec(FIELDS), "digest", by_less) == f"The way models are told apart has {ANEW}"
    assert asks_anew(build_spec(FIELDS | {"model": "elsewhere"}), "digest", by_less) == f"The model has {ANEW}"
