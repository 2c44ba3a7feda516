from pathlib import Path

import pytest

from pipeline.errors import SpecError
from pipeline.spec import HARMLESS, JobSpec, build_spec, place, read_job_file

FIELDS = {"inputs": ["/data/rows.csv"], "model": "m", "prompt": "Say {text}"}
#: Each field with another value than FIELDS and the defaults give it.
OTHERS = {
    "inputs": ["/data/other.csv"],
    "model": "n",
    "prompt": "Sing {text}",
    "name": "night",
    "system": "Be kind.",
    "raw": True,
    "choices": ["good", "bad"],
    "max_tokens": 7,
    "stop": ["."],
    "key": "id",
    "limit": 3,
    "output": "/data/out.csv",
    "trust_remote_code": True,
}


def test_lists_may_be_written_as_one_text():
    spec = build_spec(FIELDS | {"inputs": "a.csv", "choices": "good, very bad"})
    assert (spec.inputs, spec.choices) == (("a.csv",), ("good", "very bad"))
    assert build_spec(FIELDS | {"stop": ", and"}).stop == (", and",)


def test_a_spec_survives_the_ledger():
    spec = build_spec(FIELDS | {"choices": "good,bad", "output": "a.csv", "key": "id"})
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_others_is_complete():
    assert set(OTHERS) == set(JobSpec.model_fields)


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_a_fingerprint_tells_all_that_changes_a_result_and_nothing_else(field):
    one, other = build_spec(FIELDS), build_spec(FIELDS | {field: OTHERS[field]})
    assert (one.fingerprint("m", "i") == other.fingerprint("m", "i")) == (field in HARMLESS)
    assert [line.partition(":")[0] for line in one.differences(other)] == ([] if field in HARMLESS else [field])


def test_a_fingerprint_tells_the_models_and_the_inputs_content():
    spec = build_spec(FIELDS)
    prints = {spec.fingerprint(model, data) for model in ("m", "n") for data in ("i", "j")}
    assert len(prints) == 4
    assert {len(text) for text in prints} == {64}


def test_long_differences_are_shortened():
    one, other = build_spec(FIELDS | {"prompt": "é" * 80}), build_spec(FIELDS)
    assert one.differences(other) == [f'prompt: "{"é" * 56}... -> "Say {{text}}"']


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chioces": "a,b"}, 'There is no field "chioces" in a job. Did you mean "choices"?'),
        ({"zzz": 1}, 'There is no field "zzz" in a job.'),
        ({"model": None}, "model: Input should be a valid string."),
        ({"name": ""}, "name: String should have at least 1 character."),
        ({"choices": "good"}, "--choices needs two labels or more, such as positive,negative."),
        ({"choices": ["a", "a"]}, "--choices names a label twice."),
        ({"choices": "a,b", "stop": "x"}, "--stop has no meaning with --choices: nothing is generated."),
        ({"raw": True, "system": ""}, "--system needs a chat template; with --raw, write it into the prompt."),
        ({"output": "x.txt"}, "--output x.txt must end in one of .csv, .jsonl, .ndjson, .parquet."),
    ],
)
def test_what_makes_no_sense_is_a_sentence(fields, message):
    with pytest.raises(SpecError) as caught:
        build_spec(FIELDS | fields)
    assert str(caught.value) == message


def test_every_missing_field_is_named():
    with pytest.raises(SpecError) as caught:
        build_spec({})
    assert str(caught.value).splitlines() == [
        "The job has no inputs; give INPUT, or `inputs:` in the job file.",
        "The job has no model; give --model, or `model:` in the job file.",
        "The job has no prompt; give --prompt, or `prompt:` in the job file.",
    ]


def test_paths_are_taken_from_the_base(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "prompt.txt").write_text("Say\n{text}\n\n")
    fields = {"inputs": ["a.csv", "/b.csv", "-"], "model": "model", "prompt": "@prompt.txt", "output": "x.csv"}
    assert place(fields, tmp_path) == {
        "inputs": [str(tmp_path / "a.csv"), "/b.csv", "-"],
        "model": str(tmp_path / "model"),
        "prompt": "Say\n{text}\n",
        "output": str(tmp_path / "x.csv"),
    }


def test_a_model_that_is_no_path_stays_as_it_is(tmp_path):
    assert place({"model": "org/name", "inputs": "~/a.csv"}, tmp_path) == {
        "model": "org/name",
        "inputs": [str(Path.home() / "a.csv")],
    }


def test_a_prompt_with_an_at_sign_within_is_no_file(tmp_path):
    assert place({"prompt": "mail me@home"}, tmp_path) == {"prompt": "mail me@home"}


def test_a_job_files_fields_and_paths(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("inputs: [a.csv]\nprompt: |\n  Say {text}\nmax_tokens: 5\n")
    assert read_job_file(path) == {"inputs": [str(tmp_path / "a.csv")], "prompt": "Say {text}\n", "max_tokens": 5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- a\n- b\n", "must hold fields such as `prompt: ...`, one a line."),
        (b"", "must hold fields such as `prompt: ...`, one a line."),
        (b"a: [b", "is not YAML: "),
        (b"prompt: '@gone.txt'", "gone.txt cannot be read: No such file or directory."),
        (b"\xff", "cannot be read: it is not UTF-8 text."),
    ],
)
def test_a_job_file_that_is_none(tmp_path, content, message):
    (tmp_path / "job.yaml").write_bytes(content)
    with pytest.raises(SpecError) as caught:
        read_job_file(tmp_path / "job.yaml")
    assert message in str(caught.value)
