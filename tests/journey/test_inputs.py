"""Every way to name rows and to write a job down leads to the same journey."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.spec import build_spec
from pipeline.store.ledger import Ledger
from tests.warm import ROOT


def texts(home):
    """The input's texts as the results give them back, in their order."""
    return [json.loads(line)["text"] for line in home.call("results", "night").stdout.splitlines()]


@pytest.fixture
def folder(tmp_path):
    """Three files of different kinds, with their columns in different orders."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.csv").write_text("id,text\n1,first\n2,second\n")
    with pa.CompressedOutputStream(str(folder / "b.jsonl.zst"), "zstd") as stream:
        stream.write(b'{"text": "third", "id": "3"}\n')
    (folder / "c.tsv").write_text("text\tid\nfourth\t4\n")
    (folder / "_notes.csv").write_text("not,of,it\n1,2,3\n")
    return folder


def test_several_files_are_one_table(home, submit, folder):
    result = submit(folder / "c.tsv", folder / "a.csv", folder / "b.jsonl.zst", "--key", "id")
    assert result.exit_code == 0, result.stderr
    assert texts(home) == ["fourth", "first", "second", "third"]
    assert [result.key for result in home.results("night")] == ["4", "1", "2", "3"]


def test_a_folder_is_all_its_files_in_the_order_of_their_names(home, submit, folder):
    assert submit(folder).exit_code == 0
    assert texts(home) == ["first", "second", "third", "fourth"]


def test_a_pattern(home, submit, folder):
    assert submit(folder / "[ac].*sv").exit_code == 0
    assert texts(home) == ["first", "second", "fourth"]


def test_a_url(home, submit, folder, told):
    assert submit(f"{folder.as_uri()}/a.*").exit_code == 0
    assert texts(home) == ["first", "second"]
    assert "night is the same job as before." in submit(f"{folder.as_uri()}/a.*").stderr
    (folder / "a.csv").write_text("id,text\n1,other\n")
    assert "\n  inputs: their files have changed\n" in told(submit(f"{folder.as_uri()}/a.*"), 4)


def test_a_dataset_as_hugging_face_saves_it(home, submit, tmp_path, told):
    part = tmp_path / "set" / "train"
    part.mkdir(parents=True)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    (part / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    (part / "dataset_info.json").write_text("{}")
    rows = pa.RecordBatch.from_pydict({"text": pa.array(["a", "b"]).dictionary_encode()})
    with pa.ipc.new_stream(str(part / "data-00000-of-00001.arrow"), rows.schema) as arrow:
        arrow.write_batch(rows)
    assert f"such as {part}" in told(submit(tmp_path / "set"), 1)
    assert submit(part).exit_code == 0
    assert texts(home) == ["a", "b"]


def test_what_is_within_a_column_by_its_path(home, submit, tmp_path, told):
    lines = ('{"id": {"n": 7}, "chat": [{"content": "Hi"}]}', '{"id": {"n": 8}, "chat": []}')
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    prompt = ("--prompt", "{chat.0.content}")
    message = told(submit(tmp_path / "chats.jsonl", "--prompt", "{chat.0.contents}"), 1)
    assert message == ('The column "chat.0" has no field "contents". Did you mean "content"? Its fields are: content.')
    assert "<|im_start|>user\nHi<|im_end|>" in submit(tmp_path / "chats.jsonl", *prompt, "--dry-run").stdout
    done = submit(tmp_path / "chats.jsonl", *prompt, "--key", "id.n")
    assert done.exit_code == 0, done.stderr
    one, other = home.results("night")
    assert (one.key, one.error) == ("7", None)
    assert (other.key, other.error_type) == ("8", "null")
    assert other.error == 'The column "chat.0.content" is null in this row, so its prompt cannot be filled in.'
    assert "Hi" in done.stdout


def test_a_key_within_a_column_is_held_to_be_unique(submit, tmp_path, told):
    (tmp_path / "rows.jsonl").write_text('{"id": {"n": 7}, "text": "a"}\n{"id": {"n": 7}, "text": "b"}\n')
    assert told(submit(tmp_path / "rows.jsonl", "--key", "id.n"), 1).startswith('The key column "id.n" holds "7" twice')


def test_files_of_different_columns_are_no_table(submit, folder, told):
    (folder / "d.csv").write_text("text\nfifth\n")
    message = told(submit(folder), 1)
    assert message.startswith(f'{folder / "d.csv"} has no column "id", but {folder / "a.csv"} has. ')


def test_lines_of_a_text_file(home, submit, tmp_path):
    (tmp_path / "lines.txt").write_text("eins\n\ndrei")
    assert submit(tmp_path / "lines.txt").exit_code == 0
    assert texts(home) == ["eins", "", "drei"]


def test_standard_input(home, submit):
    lines = b'{"text": "a", "id": 7}\n{"text": "b", "id": 8}\n'
    assert submit("-", "--key", "id", stdin=lines).exit_code == 0
    assert [result.key for result in home.results("night")] == ["7", "8"]


def test_standard_input_that_could_not_be_kept_leaves_the_name_free(home, submit, full_disk):
    home.variables["PIPELINE_SHARD_ROWS"] = "1"
    lines = b'{"text": "a"}\n{"text": "b"}\n'
    with full_disk(behind=2):
        assert submit("-", stdin=lines).exit_code == 75
    assert list(home.path.glob("jobs/*")) == []
    assert submit("-", stdin=lines).exit_code == 0
    assert texts(home) == ["a", "b"]


def test_standard_input_whose_reader_was_killed_is_not_mixed_with_another(home, told, tiny_model):
    spec = build_spec({"inputs": "-", "model": str(tiny_model), "prompt": "{text}"})
    digest = resolve_checkpoint(spec.model).digest
    Ledger(home.database()).create_job("night", spec.model_dump_json(), "print", digest, "stdin")
    assert told(home.call("resume", "night", stdin=b'{"text": "other"}\n'), 4) == (
        "The standard input of night was not read to its end, and cannot be read again. "
        "Write it to a file, and submit that under another name."
    )


def test_a_file_name_that_is_no_text(submit, tmp_path, told):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).write_text("text\na\n")
    name = f"'{tmp_path}/\\udcff.csv'"
    assert told(submit(tmp_path), 1) == f"The file name {name} is not UTF-8 text. Rename the file."


def test_from_a_pipe_into_a_pipe_that_nobody_reads(home, tiny_model):
    unread, output = os.pipe()
    os.close(unread)
    arguments = ("-", "--model", str(tiny_model), "--prompt", "{text}", "--max-tokens", "2", "--name", "night")
    command = [sys.executable, "-m", "jobs", "submit", *arguments]
    rows, environment = b'{"text": "a"}\n' * 5, home.environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, input=rows, stdout=output, stderr=subprocess.PIPE, env=environment, timeout=120)
    os.close(output)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert len(home.results("night")) == 5


@pytest.fixture
def job_file(tmp_path, table, tiny_model):
    """In a folder of its own, which all its paths are relative to."""
    folder = tmp_path / "job"
    folder.mkdir()
    table(text=["a", "b", "c"], id=[3, 2, 1]).rename(folder / "rows.parquet")
    (folder / "prompt.txt").write_text("Say {{softly}}: {text}\n")
    (folder / "job.yaml").write_text(
        "inputs: rows.parquet\n"
        f"model: {os.path.relpath(tiny_model, folder)}\n"
        'prompt: "@prompt.txt"\n'
        "raw: true\n"
        "key: id\n"
        "max_tokens: 3\n"
        "name: from the file\n"
        "output: answers.csv\n"
    )
    return folder / "job.yaml"


def test_a_job_file_means_the_same_wherever_it_is_called_from(home, job_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = home.call("submit", "--job", job_file)
    assert result.exit_code == 0, result.stderr
    found = home.results("from the file")
    assert [result.key for result in found] == ["3", "2", "1"]
    assert [result.prompt_tokens for result in found] == [len("Say {softly}: a")] * 3
    assert max(result.output_tokens for result in found) <= 3
    assert len((job_file.parent / "answers.csv").read_text().splitlines()) >= 4
    monkeypatch.chdir(job_file.parent)
    again = home.call("submit", "--job", "job.yaml")
    assert again.exit_code == 0
    assert "from the file is the same job as before." in again.stderr


def test_flags_win_over_the_job_file(home, job_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.txt").write_text("{text}!")
    flags = ("--name", "night", "--prompt", "@own.txt", "--max-tokens", "1", "--limit", "2", "--output", "own.jsonl")
    assert home.call("submit", "--job", job_file, *flags).exit_code == 0
    found = home.results("night")
    assert [(result.key, result.prompt_tokens, result.output_tokens) for result in found] == [
        ("3", len("a!"), 1), ("2", len("b!"), 1),
    ]  # fmt: skip
    assert len((tmp_path / "own.jsonl").read_text().splitlines()) == 2
    assert not (job_file.parent / "answers.csv").exists()


def test_chat_wins_over_raw_in_the_job_file(home, job_file):
    assert home.call("submit", "--job", job_file, "--name", "night", "--chat", "--system", "Be kind.").exit_code == 0
    # A token is a byte, or one of the six special tokens.
    chat = "<system\nBe kind.>\n<user\nSay {softly}: a>\n<assistant\n"
    assert {result.prompt_tokens for result in home.results("night")} == {len(chat)}


def test_special_tokens_in_a_text_are_text(home, submit, table):
    rows = table(text=["<|im_end|>", "<:im_end:>"])
    assert submit(rows).exit_code == 0
    one, other = home.results("night")
    assert one.prompt_tokens == other.prompt_tokens
    assert one.error is None
