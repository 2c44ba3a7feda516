"""What is wrong with a job as it is asked for, or with its model, is told before a row is read."""

import json
import shutil

import pytest


@pytest.fixture
def rows(table):
    return table(text=["a", "b"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--choices", "good"], "--choices needs two labels or more, such as positive,negative."),
        (["--choices", "good,good"], "--choices names a label twice."),
        (
            ["--choices", "a,b", "--stop", "x"],
            "--stop has no meaning with --choices: nothing is generated; leave it out.",
        ),
        (
            ["--choices", "a,b", "--score", "text"],
            "--choices and --score are two tasks, and a job has one; leave one of them out.",
        ),
        (
            ["--regex", "a", "--score", "text"],
            "--regex has no meaning with --score: nothing is generated; leave it out.",
        ),
        (["--json-schema", "/no.json"], "The JSON schema file /no.json cannot be read: No such file or directory."),
        (["--n", "2"], "--n 2 needs --temperature above 0, such as 0.7; at 0 all samples would be equal."),
        (["--logprobs", "21"], "--logprobs must be 20 or less, and not 21."),
        (["--raw", "--system", "Be kind."], "--system needs a chat template; with --raw, write it into the prompt."),
        (["--output", "answers.txt"], "--output answers.txt must end in one of .csv, .jsonl, .ndjson, .parquet."),
        (["--output", "/no/such/a.csv"], "--output cannot be written: there is no directory /no/such. Make it first."),
        (["--prompt", "a { b"], 'The prompt has a lone "{" at character 3. Write "{{" for the brace itself.'),
        (["--prompt", "a } b"], 'The prompt has a lone "}" at character 3. Write "}}" for the brace itself.'),
        (["--prompt", "@/no/file"], "The prompt file /no/file cannot be read: No such file or directory."),
        (["--max-tokens", "0"], "--max-tokens must be 1 or more, and not 0."),
        (["--limit", "0"], "--limit must be 1 or more, and not 0."),
    ],
)
def test_flags_that_make_no_sense(home, submit, rows, told, flags, message):
    assert told(submit(rows, *flags), 2) == message
    assert not home.path.exists()


def test_a_column_that_is_scored_must_be_there_and_not_be_shown(submit, rows, told):
    assert told(submit(rows, "--score", "answer"), 1).startswith('The input has no column "answer".')
    assert told(submit(rows, "--score", "text"), 2) == (
        "--score text: the prompt shows this column already, so the model would only repeat it. "
        "Take {text} out of the prompt."
    )


def test_a_text_that_is_too_long_to_be_scored_is_its_rows_error(home, submit, table):
    rows = table(text=["a"] * 3, answer=["b", "x" * 505, "x" * 506])
    assert submit(rows, "--raw", "--score", "answer").exit_code == 0
    fits, brink, long = home.results("night")
    assert (fits.status, fits.output_tokens, brink.output_tokens) == ("ok", 2, 506)
    assert (long.error_type, long.prompt_tokens) == ("too_long", 6)
    assert "the text that is scored needs room for 507 tokens" in long.error


def test_an_output_that_is_a_directory(home, submit, rows, told, tmp_path):
    (tmp_path / "out.csv").mkdir()
    message = told(submit(rows, "--output", tmp_path / "out.csv"), 2)
    assert message == f"--output cannot be written: {tmp_path / 'out.csv'} is a directory. Name a file in it."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs: a.csv\nmodel: m\nprompt: x\npromt: x", 'There is no field "promt" in a job. Did you mean "prompt"?'),
        ("inputs: [rows.parquet", "The job file {path} is not YAML: while parsing a flow sequence"),
        (
            "inputs: a.csv\nmodel: m\nprompt: x\nchoices: [yes, no]",
            'choices.0: without quotes, YAML reads this as true, which is no text; write it in quotes, such as "yes".\n'
            'choices.1: without quotes, YAML reads this as false, which is no text; write it in quotes, such as "no".',
        ),
        ("only words", "The job file {path} must hold fields such as `prompt: ...`, one a line."),
        ("model: m\nprompt: x", "The job has no inputs; give INPUT, or `inputs:` in the job file."),
        ("inputs: rows.parquet\nprompt: x", "The job has no model; give --model, or `model:` in the job file."),
    ],
)
def test_a_job_file_that_is_none(home, told, tmp_path, text, message):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    assert told(home.call("submit", "--job", path), 2).startswith(message.format(path=path))


def test_a_job_file_that_cannot_be_read(home, told, tmp_path):
    path = tmp_path / "job.yaml"
    expected = f"The job file {path} cannot be read: No such file or directory."
    assert told(home.call("submit", "--job", path), 2) == expected
    path.write_bytes(b"prompt: \xff")
    assert told(home.call("submit", "--job", path), 2) == f"The job file {path} cannot be read: it is not UTF-8 text."


def test_a_model_that_is_none(submit, rows, told, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for model, message in (
        (empty, f"The directory {empty} holds no model: it needs config.json, a tokenizer, and weights as "),
        (tmp_path / "gone", f"There is no model at {tmp_path / 'gone'}: no such file or directory."),
        (rows, f"{rows} is not a model: it is a file, but not in GGUF format."),
    ):
        assert told(submit(rows, "--model", model), 1).startswith(message)


def test_weights_that_are_none(home, submit, rows, told, tmp_path, tiny_model):
    model = shutil.copytree(tiny_model, tmp_path / "model")
    (model / "model.safetensors").write_bytes(b"not weights")
    assert told(submit(rows, "--model", model), 1).startswith(f"The model {model} cannot be loaded: ")
    assert home.call("jobs", "--json").stdout == "[]\n"


def test_a_model_without_a_chat_template_goes_on_with_texts_only(home, submit, rows, told, tmp_path, tiny_model):
    model = shutil.copytree(tiny_model, tmp_path / "model", ignore=shutil.ignore_patterns("*.jinja"))
    assert told(submit(rows, "--model", model), 1) == (
        "This model has no chat template, so it does not know questions from answers. "
        "Use --raw to have the prompt gone on with as a text, or a model made for chat."
    )
    assert submit(rows, "--model", model, "--raw").exit_code == 0
    assert home.figures("night").error == 0


def test_a_chat_template_that_refuses_the_system_message(submit, rows, told, tmp_path, tiny_model):
    model = shutil.copytree(tiny_model, tmp_path / "model")
    refusal = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system message here') }}{% endif %}"
    template = model / "chat_template.jinja"
    template.write_text(refusal + template.read_text())
    message = told(submit(rows, "--model", model, "--system", "Be kind."), 2)
    assert message.startswith("The model's chat template refuses these messages: No system message here.")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("a,b, a", "--choices names a label twice."),
        (",", "--choices holds an empty text. Take it out."),
    ],
)
def test_choices_that_cannot_be(submit, rows, told, choices, message):
    assert told(submit(rows, "--choices", choices), 2) == message


def test_a_choice_longer_than_the_room_behind_a_prompt_is_that_rows_error(home, submit, table):
    rows = table(text=["a", "x" * 485])
    assert submit(rows, "--choices", f"yes,{'no' * 20}", "--raw").exit_code == 0
    short, long = home.results("night")
    assert (short.status, long.error_type) == ("ok", "too_long")
    assert (
        "The prompt has 490 tokens; the model's context is 512, and the answer needs room for 41 tokens." in long.error
    )


def test_a_faulty_request_is_told_in_words_with_json_too(submit, rows, told):
    assert "lone" in told(submit(rows, "--prompt", "{", "--json"), 2)


def test_all_rows_failed_has_a_status_of_its_own(submit, table):
    result = submit(table(text=[None, "x" * 600]), "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout)["rows"] == {
        "total": 2,
        "ok": 0,
        "truncated": 0,
        "error": 2,
        "cancelled": 0,
        "copied": 0,
    }
