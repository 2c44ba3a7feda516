"""Texts that are too long, and dirty ones, from the flags to the results."""

import csv
import json

import pytest

from pipeline.rows import Status

LONG = "The film was a joy. " * 30 + "In 2024 Maria won 12 prizes. " + "It was a good film. " * 30
TEXTS = ["short", LONG, "say <|im_end|>"]


@pytest.mark.parametrize("how", ["head", "tail", "middle", "salient"])
def test_a_text_that_is_too_long_is_cut_and_told(home, submit, table, tmp_path, how):
    output = tmp_path / "out.jsonl"
    done = submit(table(text=TEXTS), "--on-too-long", how, "--output", output)
    assert done.exit_code == 0
    short, long, typed = home.results("night")
    assert Status.ERROR not in [short.status, long.status, typed.status]
    assert (short.cut_tokens, typed.cut_tokens) == (0, 0)
    assert 450 < long.prompt_tokens <= 512 - 4
    # A token is a byte here.
    assert long.cut_tokens + long.prompt_tokens == short.prompt_tokens - len("short") + len(LONG)
    assert "1 row was cut to fit; 1 row holds special tokens of the model, which stayed plain text" in done.stdout
    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["cut_tokens"] for row in written] == [0, long.cut_tokens, 0]
    assert [row["text"] for row in written] == TEXTS
    assert json.loads(home.call("status", "--json").stdout)["texts"] == {"cut": 1, "neutralised": 1}


def test_by_itself_nothing_is_cut(home, submit, table, tmp_path):
    output = tmp_path / "out.csv"
    done = submit(table(text=TEXTS), "--output", output)
    assert [result.error_type for result in home.results("night")] == [None, "too_long", None]
    assert "have it cut (--on-too-long)" in home.results("night")[1].error
    assert "were cut" not in done.stdout
    assert "cut_tokens" not in next(csv.reader(output.open()))


def test_labels_leave_more_of_a_text(home, submit, table):
    assert submit(table(text=[LONG]), "--on-too-long", "head", "--choices", "good,bad").exit_code == 0
    (result,) = home.results("night")
    assert 480 < result.prompt_tokens <= 512 - len("good")


def test_only_the_named_column_is_cut(home, submit, table, told):
    rows = table(title=["The film", LONG], text=[LONG, "short"])
    prompt = ("--prompt", "{title}: {text}")
    assert "--on-too-long head needs --cut COLUMN, as the prompt has several: title, text." in told(
        submit(rows, *prompt, "--on-too-long", "head"), 2
    )
    assert '"txt", which is no column of the prompt. Did you mean "text"?' in told(
        submit(rows, *prompt, "--on-too-long", "head", "--cut", "txt"), 2
    )
    assert submit(rows, *prompt, "--on-too-long", "head", "--cut", "text").exit_code == 0
    cut, refused = home.results("night")
    assert cut.cut_tokens > 0
    assert refused.error.startswith('Without any text of the column "text" the prompt still has 1')


def test_a_job_file_asks_for_the_same(home, submit, table, tmp_path):
    (tmp_path / "job.yaml").write_text("on_too_long: middle\ncut: text\nnormalize: nfkc\nstrip_invisible: true\n")
    assert submit(table(text=[LONG]), "--job", tmp_path / "job.yaml").exit_code == 0
    assert home.results("night")[0].cut_tokens > 0


def test_a_dry_run_tells_what_will_be_cut(submit, table):
    shown = submit(table(text=TEXTS), "--dry-run", "--on-too-long", "tail").stdout
    assert "1 row will be cut to fit (--on-too-long tail): of the first one, row 1, " in shown


def test_dirty_texts_are_answered_as_clean_ones_and_come_back_as_they_were(home, submit, table, tmp_path):
    dirty, output = "e\u0301\u200b &lt;b&gt; \ufb01n \x07", tmp_path / "out.jsonl"
    flags = ("--normalize", "nfkc", "--strip-invisible", "--unescape-html", "--output", output)
    assert submit(table(text=[dirty, "é <b> fin "]), *flags).exit_code == 0
    one, other = home.results("night")
    assert (one.output, one.prompt_tokens) == (other.output, other.prompt_tokens)
    assert json.loads(output.read_text().splitlines()[0])["text"] == dirty


def test_by_itself_every_character_reaches_the_model(home, submit, table, tmp_path):
    texts = ["\ufffd\ufffd", "\u202bمرحبا\u202c", "e\u0301\u0323\u200b", "&amp;", "\x07\x00"]
    output = tmp_path / "out.jsonl"
    assert submit(table(text=texts), "--output", output).exit_code == 0
    lengths = [
        result.prompt_tokens - len(text.encode()) for result, text in zip(home.results("night"), texts, strict=True)
    ]
    assert len(set(lengths)) == 1
    assert [json.loads(line)["text"] for line in output.read_text().splitlines()] == texts
