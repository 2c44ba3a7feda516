from pathlib import Path

import pytest

from pipeline.errors import SpecError
from pipeline.job_file import place, read_job_file


def test_what_a_job_file_says_of_a_shape_is_read_from_beside_it(tmp_path):
    (tmp_path / "facts.json").write_text('{"type": "string"}\n')
    (tmp_path / "facts.lark").write_text('start: "a"\n')
    shape = tmp_path / "shape.yaml"
    for said, expected in (
        ("json_schema: facts.json", {"json_schema": {"type": "string"}}),
        ("json_schema: {type: string}", {"json_schema": {"type": "string"}}),
        ("grammar: facts.lark", {"grammar": 'start: "a"'}),
        ("regex: facts.json", {"regex": "facts.json"}),
    ):
        shape.write_text(said)
        assert read_job_file(shape) == expected
    shape.write_text("json_schema: fact.json")
    with pytest.raises(SpecError, match=r"The JSON schema file .*fact.json cannot be read: No such file or directory."):
        read_job_file(shape)


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
        (b'tools: "\\0"', "\\x00' cannot be read: no file's name can have all of these characters."),
        (b'grammar: "\\0"', "\\x00' cannot be read: no file's name can have"),
        (b'json_schema: "\\0"', "\\x00' cannot be read: no file's name can have"),
        (b'prompt: "@\\0"', "\\x00' cannot be read: no file's name can have"),
        (b'sql: "@a\\ud800"', "cannot be read: no file's name can have"),
        (b"inputs: ~nobody-of-that-name/a.csv", "names the home directory of a user whom this machine does not know."),
        (b"\xff", "cannot be read: it is not UTF-8 text."),
    ],
)
def test_a_job_file_that_is_none(tmp_path, content, message):
    (tmp_path / "job.yaml").write_bytes(content)
    with pytest.raises(SpecError) as caught:
        read_job_file(tmp_path / "job.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("tools", ['{"type": "function"}', '[{}, "a"]'])
def test_a_tools_file_that_is_no_list_of_objects(tmp_path, tools):
    (tmp_path / "tools.json").write_text(tools)
    with pytest.raises(SpecError, match=r"^The tools file tools\.json must be a list of objects, one for each tool,"):
        place({"tools": "tools.json"}, tmp_path)


def test_a_json_schema_s_file_that_is_no_json_is_named(tmp_path):
    (tmp_path / "facts.json").write_text("{")
    with pytest.raises(SpecError, match=r"^The JSON schema file facts\.json is not JSON: Expecting property name"):
        place({"json_schema": "facts.json"}, tmp_path)
