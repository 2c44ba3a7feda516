"""What is wrong with an input is told in whole sentences: of a row as its result, of a file before any row is run."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def outcomes(results):
    """Whether an answer was cut short is up to the model."""
    return [(result.key, "answered" if result.output is not None else result.error_type) for result in results]


def test_bad_rows_hurt_no_other_row(home, submit, table):
    mixed = table(text=["first", None, "", "x" * 600, "last"], id=["a", "b", "c", "d", "e"])
    good = table("good.parquet", text=["first", "", "last"], id=["a", "c", "e"])
    for rows, name in ((mixed, "mixed"), (good, "good")):
        result = submit(rows, "--name", name, "--key", "id", "--raw")
        assert result.exit_code == 0, result.stderr
    found = home.results("mixed")
    assert outcomes(found) == [
        ("a", "answered"), ("b", "null"), ("c", "answered"), ("d", "too_long"), ("e", "answered"),
    ]  # fmt: skip
    assert {result.status for result in found} - {"ok", "truncated"} == {"error"}
    assert found[1].error == 'The column "text" is null in this row, so its prompt cannot be filled in.'
    assert found[3].error.startswith("The prompt has 605 tokens; the model's context is 512, ")
    answers = [result.output for result in home.results("good")]
    assert [result.output for result in found] == [answers[0], None, answers[1], None, answers[2]]
    assert len(set(answers)) == 3
    assert home.faults("mixed") == []


@pytest.mark.parametrize(
    "task",
    [
        ("--raw",),
        (),
        ("--choices", "a,b"),
        ("--raw", "--embed", "mean"),
        ("--raw", "--prompt", "Say:", "--score", "text"),
    ],
    ids=["write", "chat", "choose", "embed", "score"],
)
def test_any_mix_of_texts_has_a_result_for_each_and_the_good_ones_their_own(home, submit, table, task):
    good = ["one", "two words", "日本語 👍🏽", "a <|im_end|> b", "nul \x00", "\ufeff"]
    bad = [None, "", " ", "\n\t", "\u200b", "x" * 200_000]
    mixed = [text for pair in zip(bad, good, strict=True) for text in pair]
    for name, texts in (("mixed", mixed), ("good", good)):
        submit(table(f"{name}.parquet", text=texts), "--name", name, "--prompt", "{text}", *task)
        assert home.faults(name) == []
    found, alone = home.results("mixed"), home.results("good")
    assert len(found) == len(mixed)
    kinds = dict(zip(mixed, (result.error_type for result in found), strict=True))
    assert (kinds[None], kinds["x" * 200_000]) == ("null", "too_long")
    assert kinds[""] == (None if task in [(), ("--choices", "a,b")] else "empty")
    assert all(result.error is None for result in alone)
    for result, expected in zip(found[1::2], alone, strict=True):
        assert (result.output, result.label) == (expected.output, expected.label)
        assert result.logprob == pytest.approx(expected.logprob, abs=1e-3)
        assert numbers(result) == pytest.approx(numbers(expected), abs=1e-5)


def numbers(result):
    return np.frombuffer(result.embedding or b"", "<f4").tolist()


def test_rows_of_a_type_that_is_no_text_are_error_rows(home, submit, table):
    result = submit(table(text=[["a", "list"], None, []]))
    assert result.exit_code == 5
    assert outcomes(home.results("night")) == [("0", "wrong_type"), ("1", "null"), ("2", "wrong_type")]
    assert 'The column "text" holds a value of type list in this row.' in result.stdout
    assert home.faults("night") == []


def test_only_the_columns_of_the_prompt_are_looked_at(home, submit, table):
    assert submit(table(text=["a", "b"], notes=pa.array([None, ["odd"]]))).exit_code == 0
    assert [result.error for result in home.results("night")] == [None, None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "Say {txt}"], 'The input has no column "txt". Did you mean "text"? Its columns are: text, id.'),
        (["--key", "ident"], 'The input has no column "ident". Did you mean "id"? Its columns are: text, id.'),
        (["--prompt", "{zzzzz}"], 'The input has no column "zzzzz". Its columns are: text, id.'),
    ],
)
def test_a_column_that_is_not_there(submit, table, told, arguments, message):
    assert told(submit(table(text=["a"], id=[1]), *arguments), 1) == message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", b"text,\xff\na,1\n", "Line 1 of {path} is not UTF-8 text: byte 6 of the line is 0xff."),
        ("rows.csv", b"text,id\na,1\nb\nc,3\n", "Line 3 of {path} has 1 cell, but the header has 2 cells."),
        ("rows.csv", b"text,id\n", "The input has no rows, so there is nothing to answer."),
        ("rows.csv", b"", "The input is empty: it has neither columns nor rows."),
        ("rows.jsonl", b'{"text": "a"}\n{"text": \n', "Line 2 of {path} is not JSON: "),
        ("rows.jsonl", b'{"text": "a"}\n["b"]\n', "Line 2 of {path} is a list, not an object."),
        ("rows.parquet", b"PAR1 and then nothing", "{path} cannot be read: "),
        ("rows.xlsx", b"a sheet", "{path} has no extension that is known. Supported are .parquet, "),
        ("rows.csv.gz", b"text\na\n", "{path} cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_read_leaves_no_job(home, submit, told, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    assert told(submit(path), 1).startswith(message.format(path=path))
    assert home.call("jobs", "--json").stdout == "[]\n"


def test_a_parquet_file_that_is_cut_off(submit, table, told):
    path = table(text=["some text"] * 50)
    path.write_bytes(path.read_bytes()[:-20])
    message = told(submit(path), 1)
    assert message.startswith(f"{path} cannot be read: ")
    assert message.endswith("copy it or write it again.")


def test_no_rows_in_a_parquet_file(submit, table, told):
    empty = table(text=pa.array([], pa.string()))
    assert told(submit(empty), 1) == "The input has no rows, so there is nothing to answer."


def test_a_fault_behind_rows_that_are_cut_already_leaves_no_job(make_home, tiny_model, tmp_path, told):
    home, path = make_home(PIPELINE_SHARD_ROWS="10"), tmp_path / "rows.parquet"
    rows = pa.table({"text": [f"text {place} {'z' * 100}" for place in range(1000)]})
    pq.write_table(rows, path, row_group_size=100, compression="none", use_dictionary=False)
    damaged = bytearray(path.read_bytes())
    damaged[60_000:60_400] = b"\xff" * 400
    path.write_bytes(damaged)
    arguments = ("submit", path, "--name", "night", "--model", tiny_model, "--prompt", "{text}")
    assert told(home.call(*arguments), 1).startswith(f"{path} cannot be read: ")
    assert home.call("jobs", "--json").stdout == "[]\n"
    assert list(home.path.glob("jobs/*")) == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["x", "y", "x"], 'The key column "id" holds "x" twice: in row 1 of {path} and in row 3 of {path} '),
        (["x", None, "z"], 'The key column "id" is empty in row 2 of {path} '),
        (["x", "", "z"], 'The key column "id" is empty in row 2 of {path} '),
        ([["x"], ["y"], ["z"]], 'The column "id" is list<item: string>, which cannot be a key.'),
    ],
)
def test_a_bad_key_is_told_with_its_rows_and_the_name_is_free_again(home, submit, table, told, ids, message):
    home.variables["PIPELINE_SHARD_ROWS"] = "1"
    bad = table("bad.parquet", text=["a", "b", "c"], id=ids)
    assert told(submit(bad, "--key", "id"), 1).startswith(message.format(path=bad))
    assert list(home.path.glob("jobs/*")) == []
    assert submit(table(text=["a", "b", "c"], id=["x", "y", "z"]), "--key", "id").exit_code == 0
    assert [result.key for result in home.results("night")] == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["{0}/none.csv"], "{0}/none.csv does not exist. Check the name, and the folder that you are in."),
        (["{0}/*.tsv"], "No file matches the pattern {0}/*.tsv. Check it, and the folder that you are in."),
        (["{0}"], "There is no file of a supported kind in the folder {0}."),
        (["-", "{0}/rows.csv"], "Standard input (-) cannot be joined with other inputs. Give it alone, or as a file."),
    ],
)
def test_inputs_that_are_none(submit, told, tmp_path, inputs, message):
    assert told(submit(*(name.format(tmp_path) for name in inputs)), 1) == message.format(tmp_path)


def test_a_file_given_twice(submit, table, told):
    rows = table(text=["a"])
    assert told(submit(rows, rows), 1).startswith(f"{rows} is given twice, so its rows would be answered twice.")


def test_what_is_no_text_is_an_error_of_its_row_alone(home, submit, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"text": "a", "more": "b"}\n{"text": ["c"], "more": "b"}\n{"text": "\\ud83d"}\n{"text": "d", "more": []}'
    )
    assert submit(path).exit_code == 0
    assert [result.error_type for result in home.results("night")] == [None, "wrong_type", "not_text", None]
    lines = home.call("results", "night", "--format", "jsonl").stdout.splitlines()
    assert [(row["text"], row["more"]) for row in map(json.loads, lines)] == [
        ("a", "b"), ('["c"]', "b"), ("\ufffd", None), ("d", "[]"),
    ]  # fmt: skip


NO_UTF8 = pa.array([b"a", b"\xff", b"c"]).view(pa.string())


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_bytes_that_are_no_utf8_are_an_error_of_their_row_alone(home, submit, table, tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        table("rows.parquet", text=NO_UTF8, other=NO_UTF8)
    elif ending == "csv":
        path.write_bytes(b"text,other\na,a\n\xff,\xff\nc,c\n")
    else:
        path.write_bytes(b"".join(b'{"text":"%b","other":"%b"}\n' % (each, each) for each in (b"a", b"\xff", b"c")))
    result = submit(path)
    assert result.exit_code == 0
    assert (
        "Warning: 1 row has bytes that are no UTF-8, or no text at all, where text should be: "
        f'row 2 of {path} (rows counted from 1, a header not counted), column "text". '
    ) in result.stderr
    assert [result.error for result in home.results("night")] == [
        None,
        'The column "text" holds the byte 0xff, which is no UTF-8, at character 1 in this row, which is no text; '
        "repair the column.",
        None,
    ]
    for written in ("parquet", "csv", "jsonl"):
        assert home.call("results", "night", "--output", tmp_path / f"out.{written}").exit_code == 0
    assert pq.read_table(tmp_path / "out.parquet")["other"].to_pylist() == ["a", "\ufffd", "c"]
