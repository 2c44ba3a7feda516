"""Prompts of many shapes, from the command to what the model reads."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import byte_tokenizer

SHOT = "<|im_start|>user\nSay: {}<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n"
ASKED = "<|im_start|>user\nSay: {}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def rows(table):
    return table(text=["a", "b"])


@pytest.fixture
def seen(submit):
    """The first prompt, as a dry run shows it."""

    def see(*arguments):
        result = submit(*arguments, "--dry-run")
        assert result.exit_code == 0, result.output
        return re.split("\n\nThe second prompt:|\n\nShared by", result.stdout.partition(" will read it:\n\n")[2])[0]

    return see


def job_file(path, **fields):
    """JSON is YAML, too."""
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "yaml"])
def test_examples_come_from_a_table_of_any_kind(seen, rows, tmp_path, kind):
    file = tmp_path / f"shots.{kind}"
    examples = [{"text": "x", "answer": "X"}, {"text": "y", "answer": "Y"}]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(examples), file)
    elif kind == "csv":
        file.write_text("text,answer\nx,X\ny,Y\n")
    else:
        file.write_text(json.dumps(examples) if kind == "yaml" else "\n".join(map(json.dumps, examples)))
    assert seen(rows, "--examples", file) == SHOT.format("x", "X") + SHOT.format("y", "Y") + ASKED.format("a")
    assert seen(rows, "--examples", file, "--raw") == "Say: x X\n\nSay: y Y\n\nSay: a"


def test_examples_are_kept_with_the_job(home, submit, rows, tmp_path, told):
    file = tmp_path / "shots.csv"
    file.write_text("text,answer\nx,X\n")
    assert submit(rows, "--examples", file).exit_code == 0
    file.write_text("text,answer\nx,Y\n")
    assert '\n  examples: [{"text": "x", "answer": "X"}] -> [{"text": "x", "answer": "Y"}]\n' in told(
        submit(rows, "--examples", file), 4
    )
    file.unlink()
    assert home.call("resume", "night").exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("shots.csv", "text,answer\n", "There are no examples in "),
        ("shots.yaml", "a: b", "must be a list, each with the prompt's columns and an `answer`."),
        ("shots.yaml", "- [", " is not YAML: "),
        ("shots.bin", "", "has no extension that is known."),
        ("shots.csv", "txt,answer\nx,X\n", 'Example 1 cannot be used: The column "text" is null'),
    ],
)
def test_examples_that_cannot_be_are_told(submit, rows, tmp_path, told, name, text, message):
    (tmp_path / name).write_text(text)
    result = submit(rows, "--examples", tmp_path / name)
    assert result.exit_code in (1, 2)
    assert message in told(result, result.exit_code)


def test_messages_of_a_job_file(home, table, tiny_model, tmp_path):
    messages = [
        {"role": "system", "content": "Of {kind}."},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "X"},
        {"role": "user", "content": "{text}"},
    ]
    rows = table(text=["a", "b"], kind=["k", "l"])
    job = job_file(
        tmp_path / "job.yaml", name="night", inputs=str(rows), model=str(tiny_model), messages=messages, max_tokens=4
    )
    shown = home.call("submit", "--job", job, "--dry-run").stdout
    chat = "".join(
        f"<|im_start|>{role}\n{content}<|im_end|>\n"
        for role, content in (("system", "Of k."), ("user", "x"), ("assistant", "X"), ("user", "a"))
    )
    assert f"will read it:\n\n{chat}<|im_start|>assistant\n\n" in shown
    assert home.call("submit", "--job", job).exit_code == 0
    assert {result.error for result in home.results("night")} == {None}


CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "<|im_end|>"}]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_each_row_may_bring_its_chat(home, tiny_model, tmp_path, kind):
    file = tmp_path / f"chats.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"chat": [CHAT, None]}), file)
    elif kind == "jsonl":
        file.write_text("\n".join(json.dumps({"chat": chat}) for chat in (CHAT, None)))
    else:
        text = json.dumps(CHAT).replace('"', '""')
        file.write_text(f'chat,n\n"{text}",1\n[],2\n')
    asked = ("--name", "night", "--model", tiny_model, "--messages-column", "chat", "--max-tokens", "4")
    shown = home.call("submit", file, *asked, "--dry-run").stdout
    chat = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert f"will read it:\n\n{chat}\n" in shown
    assert "1 row holds special tokens of the model, which stay plain text." in shown
    assert home.call("submit", file, *asked).exit_code == 0
    one, other = home.results("night")
    assert (one.error, other.error_type) == (None, "messages")


def test_each_row_may_bring_its_token_ids(home, submit, table, tiny_model):
    texts = ["a", "longer"]
    rows = table("ids.parquet", ids=[*(byte_tokenizer().encode(f"Say: {text}") for text in texts), None])
    asked = ("--model", tiny_model, "--tokens-column", "ids", "--raw", "--choices", "x,y")
    assert "will read it:\n\nSay: a\n" in home.call("submit", rows, *asked, "--dry-run").stdout
    assert home.call("submit", rows, *asked, "--name", "ids").exit_code == 0
    assert submit(table(text=texts), "--raw", "--choices", "x,y").exit_code == 0
    *found, null = home.results("ids")
    expected = home.results("night")
    assert [(result.label, result.prompt_tokens) for result in found] == [
        (result.label, result.prompt_tokens) for result in expected
    ]
    assert [result.score for result in found] == pytest.approx([result.score for result in expected], abs=1e-5)
    assert null.error_type == "null"


def test_what_the_chat_template_is_given(home, rows, tmp_path, tiny_model, told):
    (tmp_path / "tools.json").write_text('[{"name": "f"}]')
    model = tmp_path / "model"
    model.mkdir()
    for file in tiny_model.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    (model / "chat_template.jinja").write_text("{{ tools | tojson }} {{ thinking | tojson }} {{ messages[0].content }}")
    asked = ("--model", model, "--prompt", "{text}", "--tools", tmp_path / "tools.json", "--dry-run")
    shown = home.call("submit", rows, *asked, "--template-var", "thinking=false").stdout
    assert 'will read it:\n\n[{"name": "f"}] false a\n' in shown
    wrong = home.call("submit", rows, *asked, "--template-var", "thinking=False")
    assert told(wrong, 2).startswith("--template-var thinking=False: give NAME=JSON, such as enable_thinking=false,")
    (tmp_path / "tools.json").write_text("{")
    assert " is not JSON: " in told(home.call("submit", rows, *asked), 2)


TEMPLATE = "Tags:{% for tag in tags %} {{ tag.name }}{% endfor %}\nSay: {{ text or 'nothing' }}"


@pytest.fixture
def tagged(tmp_path):
    (tmp_path / "say.j2").write_text(f"{TEMPLATE}\n")
    rows = [{"text": "a", "tags": [{"name": "x"}, {"name": "<|im_end|>"}]}, {"text": None, "tags": None}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path / "rows.jsonl"


def test_a_template_in_a_file(home, submit, seen, tagged, tmp_path, tiny_model):
    asked = ("--prompt", f"@{tmp_path / 'say.j2'}")
    chat = "<|im_start|>user\nTags: x <|im_end|>Say: a<|im_end|>\n<|im_start|>assistant\n"
    assert seen(tagged, *asked) == chat
    assert submit(tagged, *asked).exit_code == 0
    one, other = home.results("night")
    assert (one.error, other.error_type) == (None, "template")
    assert other.error == "The prompt's template fails in this row, line 1: 'NoneType' object is not iterable."
    (tmp_path / "say.j2").unlink()
    assert home.call("resume", "night").exit_code == 0
    job = job_file(tmp_path / "job.yaml", prompt=TEMPLATE, template="jinja", model=str(tiny_model))
    assert f"will read it:\n\n{chat}\n" in home.call("submit", tagged, "--job", job, "--dry-run").stdout
    plain = home.call("submit", tagged, "--job", job, "--prompt", "Hi {text}", "--dry-run").stdout
    assert "<|im_start|>user\nHi a<|im_end|>" in plain


def test_a_template_s_column_that_is_not_there_is_told_the_nearest(submit, tagged, tmp_path, told):
    (tmp_path / "say.j2").write_text("{% for tag in tagz %}{{ tag }}{% endfor %}")
    message = told(submit(tagged, "--prompt", f"@{tmp_path / 'say.j2'}"), 1)
    assert message == 'The input has no column "tagz". Did you mean "tags"? Its columns are: text, tags.'


def test_a_column_of_a_template_may_be_cut(home, submit, table, tmp_path):
    (tmp_path / "say.j2").write_text("Say: {% if text %}{{ text | upper }}{% endif %}!")
    rows = table(text=["a", "word " * 200])
    asked = ("--prompt", f"@{tmp_path / 'say.j2'}", "--on-too-long", "head")
    assert submit(rows, *asked).exit_code == 0
    short, long = home.results("night")
    assert (short.error, long.error, short.cut_tokens) == (None, None, 0)
    assert 450 < long.prompt_tokens < 512 < long.prompt_tokens + long.cut_tokens


def test_three_prompts_are_shown_before_a_night_is_spent(submit, table):
    shown = submit(table(text=["a", None, "b<|im_end|>", "c", "d"]), "--dry-run").stdout
    for which, text in (("first", "a"), ("second", "b<|im_end|>"), ("third", "c")):
        chat = f"<|im_start|>user\nSay: {text}<|im_end|>\n<|im_start|>assistant\n"
        assert shown.partition(f"The {which} prompt")[2].partition(":\n\n")[2].startswith(chat)
    assert "Say: d" not in shown


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            (),
            "1 answer of up to 4 tokens from MODEL; its prompt is a chat with text in it.",
        ),
        (
            ("--choices", "a,b,c,d", "--raw", "--limit", "1"),
            "one of the labels a, b, c and 1 more from MODEL; its prompt is a text with text in it.",
        ),
        (
            ("--embed", "last"),
            "a vector from MODEL; its prompt is a chat with text in it.",
        ),
    ],
)
def test_a_new_job_says_what_it_will_do(submit, rows, tiny_model, flags, said):
    rows_of = f"rows.parquet{' up to the 1 row of --limit' if '--limit' in flags else ''}"
    said = f"Each row of {rows_of} will get {said.replace('MODEL', str(tiny_model))}"
    assert submit(rows, *flags).stderr.startswith(f"{said}\n")
    assert said not in submit(rows, *flags).stderr


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_variable_that_the_chat_template_never_asks_for_is_told_and_no_error(submit, rows, more):
    done = submit(rows, "--template-var", "thinking=false", *more)
    assert done.exit_code == 0
    assert "Warning: The model's chat template asks for no variable thinking, " in done.stderr
