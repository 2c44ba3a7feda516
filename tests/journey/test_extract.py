"""Answers held to a shape, from the flags to the result and the exports."""

import csv
import json
import re
import sqlite3

import pyarrow.parquet as pq
import pytest

from tests.journey.test_tasks import run  # noqa: F401 - a fixture

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "tall": {"type": "boolean"}},
    "required": ["name", "tall"],
    "additionalProperties": False,
}
#: More than the longest answer that the schema allows, each character a few escaped bytes.
ROOM = ("--max-tokens", "90")


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "person.json"
    path.write_text(json.dumps(PERSON, indent=2))
    return path


def is_person(value):
    return list(value) == ["name", "tall"] and isinstance(value["name"], str) and value["tall"] in (True, False)


def test_answers_of_a_schema_are_in_every_export_as_values(home, submit, table, schema, tmp_path):
    rows = table(text=["a", "b", None])
    assert submit(rows, "--json-schema", schema, *ROOM).exit_code == 0
    assert home.faults("night") == []
    *whole, failed = home.results("night")
    assert (failed.error_type, failed.parsed) == ("null", None)
    values = [json.loads(result.output) for result in whole]
    assert all(is_person(value) for value in values)
    assert [(result.status, result.finish_reason, json.loads(result.parsed)) for result in whole] == [
        ("ok", "stop", value) for value in values
    ]
    lines = home.call("results", "night", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["parsed"] for line in lines] == [*values, None]
    for name in ("a.parquet", "a.csv"):
        assert home.call("results", "night", "--output", tmp_path / name).exit_code == 0
    column = pq.read_table(tmp_path / "a.parquet")["parsed"]
    assert (str(column.type), column.to_pylist()) == ("string", [whole[0].parsed, whole[1].parsed, None])
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["parsed"] for row in csv.DictReader(file)] == [whole[0].parsed, whole[1].parsed, ""]


def test_the_schema_is_kept_with_the_job_and_not_the_files_name(home, submit, table, schema, told):
    rows = table(text=["a"])
    assert submit(rows, "--json-schema", schema, *ROOM).exit_code == 0
    again = schema.rename(schema.with_name("other.json"))
    again.write_text(json.dumps(PERSON))
    assert submit(rows, "--json-schema", again, *ROOM).exit_code == 0
    assert home.call("resume", "night").exit_code == 0
    again.write_text(json.dumps(PERSON | {"required": ["name"]}))
    assert "\n  json_schema: " in told(submit(rows, "--json-schema", again, *ROOM), 4)
    with sqlite3.connect(home.path / "pipeline.db") as connection:
        ((spec,),) = connection.execute("SELECT spec_json FROM jobs").fetchall()
    connection.close()
    assert json.loads(json.loads(spec)["json_schema"]) == PERSON


def test_a_job_file_holds_the_schema_itself(home, tmp_path, table, tiny_model):
    job = tmp_path / "job.yaml"
    table(text=["a"])
    job.write_text(
        f"name: night\ninputs: rows.parquet\nmodel: {tiny_model}\nprompt: '{{text}}'\njson_schema:\n"
        "  type: array\n  items: {enum: [1, null]}\n  minItems: 2\n  maxItems: 2\n"
    )
    assert home.call("submit", "--job", job).exit_code == 0
    (result,) = home.results("night")
    assert result.parsed in ("[1, 1]", "[1, null]", "[null, 1]", "[null, null]")


def test_expressions_and_grammars_have_an_output_and_no_value(home, submit, table, tmp_path):
    rows, grammar = table(text=["a", "b"]), tmp_path / "sum.lark"
    grammar.write_text('start: NUMBER "+" NUMBER\nNUMBER: /[0-9]{1,3}/\n')
    assert submit(rows, "--grammar", grammar, "--max-tokens", "9").exit_code == 0
    assert submit(rows, "--regex", "(yes|no)!", "--name", "other").exit_code == 0
    assert all(re.fullmatch("[0-9]{1,3}[+][0-9]{1,3}", result.output) for result in home.results("night"))
    assert all(result.output in ("yes!", "no!") for result in home.results("other"))
    assert {result.parsed for name in ("night", "other") for result in home.results(name)} == {None}
    assert "parsed" not in home.call("results", "other", "--format", "jsonl").stdout


def test_an_answer_that_is_cut_off_is_not_repaired(home, submit, table, schema):
    assert submit(table(text=["a"]), "--json-schema", schema, "--max-tokens", "12").exit_code == 0
    (result,) = home.results("night")
    assert (result.status, result.finish_reason, result.parsed) == ("truncated", "length", None)
    assert result.output.startswith('{"name": "')


def test_what_cannot_be_written_is_told_at_submit_and_no_job_is_there(home, submit, table, told, tmp_path):
    grammar = tmp_path / "no.lark"
    grammar.write_text("start: missing")
    assert told(submit(table(text=["a"]), "--grammar", grammar), 2) == (
        '--grammar cannot be used: at 1(8): unknown name: "missing".'
    )
    assert home.call("status", "night").exit_code == 3


def test_the_small_model_finds_what_two_sentences_say(run, tmp_path):  # noqa: F811
    path = tmp_path / "facts.json"
    properties = {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}}
    path.write_text(json.dumps({"type": "object", "properties": properties, "required": [*properties]}))
    prompt = (
        'Text: Peter is 52 years old and lives in Oslo.\nFacts: {{"name": "Peter", "age": 52, "city": "Oslo"}}\n\n'
        "Text: {text}\nFacts: "
    )
    texts = ["Maria is 34 years old and lives in Lisbon.", "In Paris lives Tom, who is 7 years old."]
    results, exported = run("--prompt", prompt, "--json-schema", str(path), "--max-tokens", "40", text=texts)
    assert [row["parsed"] for row in exported] == [
        {"name": "Maria", "age": 34, "city": "Lisbon"},
        {"name": "Tom", "age": 7, "city": "Paris"},
    ]
    assert {result.status for result in results} == {"ok"}
