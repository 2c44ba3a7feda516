import pytest

from pipeline.spec import JobSpec


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("id,text\n1,a\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "The job has no inputs; give INPUT, or `inputs:` in the job file."),
        (["--prompt", "{text"], 2, 'The prompt has a lone "{" at character 1. Write "{{" for the brace itself.'),
        (
            ["--prompt", "{tekst}"],
            1,
            'The input has no column "tekst". Did you mean "text"? Its columns are: id, text.',
        ),
        (["--key", "idd"], 1, 'The input has no column "idd". Did you mean "id"? Its columns are: id, text.'),
        (["--model", "/no/model"], 1, "There is no model at /no/model: no such file or directory."),
        (["--output", "no/x.csv"], 2, "--output cannot be written: there is no directory CWD/no. Make it first."),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_done(
    run, rows, home, tmp_path, monkeypatch, arguments, status, message
):
    monkeypatch.chdir(tmp_path)
    inputs = [rows] if arguments else []
    result = run("submit", *inputs, "--model", "/no/model", "--prompt", "{text}", *arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message.replace("CWD", str(tmp_path)) in result.stderr
    assert list(home.iterdir()) == []


def test_a_prompt_of_another_kind_than_that_which_questions_go_on_with_is_told(run, rows, tmp_path):
    (tmp_path / "job.yaml").write_text(
        f'inputs: {rows}\nmodel: /no\nprompt: "{{text}}"\nquestions: {{a: {{prompt: "{{id}}"}}}}\n'
    )
    (tmp_path / "p.j2").write_text("{{ text }}")
    result = run("submit", "--job", str(tmp_path / "job.yaml"), "--prompt", f"@{tmp_path / 'p.j2'}")
    assert result.exit_code == 2
    assert "questions go on with its own prompt, so --prompt must be a Jinja template (.j2) where" in result.stderr
    again = run("submit", "--job", str(tmp_path / "job.yaml"), "--prompt", "{text}!")
    assert "There is no model at /no" in again.stderr


def test_an_unknown_flag_is_told_the_nearest(run, rows):
    result = run("submit", rows, "--max-tokns", "x")
    assert result.exit_code == 2
    assert "No such option '--max-tokns'. Did you mean '--max-tokens'?" in result.stderr


def test_the_help_names_every_field_of_a_job(run):
    text = run("submit", "--help").stdout
    of_job_files = {"messages", "questions", "template", "notify"}
    for field in JobSpec.model_fields.keys() - {"inputs", *of_job_files}:
        flag = "--template-var" if field == "template_vars" else f"--{field.replace('_', '-')}"
        assert f"{flag} " in text or f"{flag}/" in text
    assert "pipeline submit examples/reviews.parquet" in text


def test_a_prompt_without_a_column_is_warned_of(run, rows, tmp_path):
    asked = ("submit", rows, "--model", "/no/model", "--prompt")
    told = run(*asked, "Is {{text}} good?")
    assert told.stderr.startswith(
        "Warning: Every row gets the same question: the prompt has no column in it. Write one where its text belongs: "
        "{id}, {text}.\n"
    )
    assert "There is no model at /no/model" in told.stderr
    (tmp_path / "p.j2").write_text("Is text good?")
    assert "{{ id }}, {{ text }}." in run(*asked, f"@{tmp_path / 'p.j2'}").stderr
    for prompt, *flags in (["Is {text} good?"], ["The text:", "--raw", "--score", "text"]):
        assert "Warning" not in run(*asked, prompt, *flags).stderr


def test_of_several_questions_those_without_a_column_are_named(run, rows, tmp_path):
    (tmp_path / "job.yaml").write_text(
        f'inputs: {rows}\nmodel: /no\nprompt: "Hi."\nquestions: {{a: {{prompt: "{{text}}"}}, b: {{prompt: "So?"}}}}\n'
    )
    assert "the prompt of b has no column in it." in run("submit", "--job", str(tmp_path / "job.yaml")).stderr
