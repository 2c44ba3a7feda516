from pathlib import Path

import pytest

from pipeline.errors import SpecError
from pipeline.job_file import place, read_job_file
from pipeline.spec import HARMLESS, JobSpec, build_spec

FIELDS = {"inputs": ["/data/rows.csv"], "model": "m", "prompt": "Say {text}"}
#: Each field with another value than FIELDS and the defaults give it.
OTHERS = {
    "deterministic": True,
    "dedupe": False,
    "reuse_results": True,
    "priority": 3,
    "inputs": ["/data/other.csv"],
    "model": "n",
    "prompt": "Sing {text}",
    "sql": "SELECT 1",
    "name": "night",
    "system": "Be kind.",
    "raw": True,
    "choices": ["good", "bad"],
    "length_normalize": True,
    "multi_label": True,
    "prior_correction": True,
    "score": "answer",
    "embed": "mean",
    "max_tokens": 7,
    "stop": ["."],
    "temperature": 0.7,
    "top_k": 40,
    "top_p": 0.9,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "seed": 1,
    "n": 3,
    "logprobs": 0,
    "key": "id",
    "limit": 3,
    "where": "n > 3",
    "sample": "10%",
    "output": "/data/out.csv",
    "trust_remote_code": True,
    "dtype": "bfloat16",
    "adapter": "/data/lora",
    "on_too_long": "head",
    "cut": "text",
    "normalize": "nfc",
    "strip_invisible": True,
    "unescape_html": True,
}
#: Fields that need another one beside them.
NEEDS: dict[str, dict[str, object]] = {
    **{field: {"temperature": 1.0} for field in ("top_k", "top_p", "min_p", "seed", "n")},
    **{field: {"choices": "good,bad"} for field in ("length_normalize", "multi_label", "prior_correction")},
}
NEEDS["cut"] = {"on_too_long": "tail"}
NEEDS["sql"] = {"inputs": ["sqlite:////data/a.db"]}


def test_lists_may_be_written_as_one_text():
    spec = build_spec(FIELDS | {"inputs": "a.csv", "choices": "good, very bad"})
    assert (spec.inputs, spec.choices) == (("a.csv",), ("good", "very bad"))
    assert build_spec(FIELDS | {"stop": ", and"}).stop == (", and",)


def test_a_sample_is_a_number_or_a_share():
    spec = build_spec(FIELDS | {"sample": 5, "seed": 3})
    assert (spec.sample, spec.sample_count, spec.sample_share) == ("5", 5, None)
    spec = build_spec(FIELDS | {"sample": "2.5%"})
    assert (spec.sample_count, spec.sample_share) == (None, 0.025)


def test_a_spec_survives_the_ledger():
    spec = build_spec(FIELDS | {"choices": "good,bad", "output": "a.csv", "key": "id"})
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec
    drawn = build_spec(FIELDS | {"temperature": 0.7, "top_p": 0.9, "repetition_penalty": 1.1})
    assert JobSpec.model_validate_json(drawn.model_dump_json()) == drawn


def test_penalties_need_no_temperature():
    spec = build_spec(FIELDS | {"repetition_penalty": 1.2, "presence_penalty": -0.5, "temperature": 0, "seed": 0})
    assert (spec.repetition_penalty, spec.presence_penalty, spec.temperature) == (1.2, -0.5, 0)


def test_what_is_so_by_itself_may_be_said():
    said = {"temperature": 0, "repetition_penalty": 1, "presence_penalty": 0, "seed": 0, "n": 1, "max_tokens": 256}
    for base in (FIELDS, FIELDS | {"choices": "good,bad"}):
        assert build_spec(base | said).fingerprint("m", "i") == build_spec(base).fingerprint("m", "i")


def test_a_score_may_tell_of_each_token():
    spec = build_spec(FIELDS | {"score": "answer", "logprobs": 3})
    assert (spec.beside, spec.writes, build_spec(FIELDS).writes) == (("answer",), False, True)


def test_others_is_complete():
    assert set(OTHERS) == set(JobSpec.model_fields)


@pytest.mark.parametrize("field", sorted(OTHERS))
def test_a_fingerprint_tells_all_that_changes_a_result_and_nothing_else(field):
    base = FIELDS | NEEDS.get(field, {})
    one, other = build_spec(base), build_spec(base | {field: OTHERS[field]})
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
        ({"dtype": "int4"}, "dtype: Input should be 'auto', 'float32', 'bfloat16' or 'float16'."),
        ({"name": ""}, "name: String should have at least 1 character."),
        ({"choices": "good"}, "--choices needs two labels or more, such as positive,negative."),
        ({"choices": ["a", "a"]}, "--choices names a label twice."),
        ({"choices": "a,b", "stop": "x"}, "--stop has no meaning with --choices: nothing is generated; leave it out."),
        (
            {"choices": "a,b", "max_tokens": 5},
            "--max-tokens has no meaning with --choices: nothing is generated; leave it out.",
        ),
        ({"choices": "a,b", "n": 2}, "--n has no meaning with --choices: nothing is generated; leave it out."),
        (
            {"choices": "a,b", "logprobs": 0},
            "--logprobs has no meaning with --choices: nothing is generated; leave it out.",
        ),
        (
            {"choices": "a,b", "score": "c"},
            "--choices and --score are two tasks, and a job has one; leave one of them out.",
        ),
        ({"score": "c", "stop": "x"}, "--stop has no meaning with --score: nothing is generated; leave it out."),
        ({"embed": "cls"}, "embed: Input should be 'last' or 'mean'."),
        (
            {"embed": "last", "score": "a"},
            "--score and --embed are two tasks, and a job has one; leave one of them out.",
        ),
        (
            {"embed": "last", "logprobs": 0},
            "--logprobs has no meaning with --embed: nothing is generated; leave it out.",
        ),
        ({"score": ""}, "score: String should have at least 1 character."),
        ({"multi_label": True}, "--multi-label needs --choices, such as positive,negative, which it compares."),
        (
            {"prior_correction": True, "max_tokens": 5},
            "--prior-correction needs --choices, such as positive,negative, which it compares.",
        ),
        (
            {"choices": "a,b", "multi_label": True, "length_normalize": True},
            "--length-normalize has no meaning with --multi-label: each label is a yes or a no of its own; "
            "leave one of them out.",
        ),
        ({"n": 4}, "--n 4 needs --temperature above 0, such as 0.7; at 0 all samples would be equal."),
        ({"temperature": 1, "n": 0}, "n: Input should be greater than or equal to 1."),
        ({"temperature": 1, "n": 65}, "n: Input should be less than or equal to 64."),
        ({"logprobs": -1}, "logprobs: Input should be greater than or equal to 0."),
        ({"logprobs": 21}, "logprobs: Input should be less than or equal to 20."),
        (
            {"choices": ["maybe", False]},
            'choices.1: without quotes, YAML reads this as false, which is no text; write it in quotes, such as "no".',
        ),
        (
            {"stop": [1.5]},
            'stop.0: without quotes, YAML reads this as 1.5, which is no text; write it in quotes, such as "1.5".',
        ),
        (
            {"choices": "a,b", "temperature": 1},
            "--temperature has no meaning with --choices: nothing is generated; leave it out.",
        ),
        ({"choices": "a,b", "seed": 3}, "--seed has no meaning with --choices: nothing is generated; leave it out."),
        (
            {"choices": "a,b", "repetition_penalty": 2},
            "--repetition-penalty has no meaning with --choices: nothing is generated; leave it out.",
        ),
        (
            {"top_k": 5, "seed": 1},
            "--top-k needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken.",
        ),
        ({"top_p": 1}, "--top-p needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken."),
        ({"min_p": 0}, "--min-p needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken."),
        ({"seed": -1}, "--seed needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken."),
        ({"temperature": 0.001}, "--temperature is 0, which takes the likeliest token, or 0.01 and more."),
        ({"temperature": -1}, "temperature: Input should be greater than or equal to 0."),
        ({"temperature": float("inf")}, "temperature: Input should be less than or equal to 100."),
        ({"temperature": float("nan")}, "temperature: Input should be less than or equal to 100."),
        ({"temperature": 1, "top_k": 0}, "top_k: Input should be greater than or equal to 1."),
        ({"temperature": 1, "top_p": 0}, "top_p: Input should be greater than 0."),
        ({"temperature": 1, "top_p": 1.1}, "top_p: Input should be less than or equal to 1."),
        ({"temperature": 1, "min_p": -0.1}, "min_p: Input should be greater than or equal to 0."),
        ({"repetition_penalty": 0}, "repetition_penalty: Input should be greater than or equal to 0.01."),
        ({"presence_penalty": 2.5}, "presence_penalty: Input should be less than or equal to 2."),
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


def test_a_column_is_cut_only_where_it_is_said_how():
    with pytest.raises(SpecError, match="--cut needs --on-too-long, which says how: head, tail, middle or salient"):
        build_spec(FIELDS | {"cut": "text"})
    assert build_spec(FIELDS | {"cut": "text", "on_too_long": "salient"}).cut == "text"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("on_too_long", "on_too_long: Input should be 'error', 'head', 'tail', 'middle' or 'salient'."),
        ("normalize", "normalize: Input should be 'nfc' or 'nfkc'."),
    ],
)
def test_a_way_that_is_none_is_told_those_that_there_are(field, message):
    with pytest.raises(SpecError) as refused:
        build_spec(FIELDS | {field: "middel"})
    assert str(refused.value) == message
