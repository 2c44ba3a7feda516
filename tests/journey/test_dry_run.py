"""`--dry-run` shows what the model will read and what the job will cost, and leaves nothing behind."""

import re
import sqlite3

import pytest

from pipeline import foretelling


@pytest.fixture
def rows(table):
    return table(text=["a", None, "bb", "x" * 600, "say <|im_end|>", "c" * 40])


def block(text, start, end="\n\n"):
    """What stands between a line that begins so and the next such end."""
    return text.partition(start)[2].partition("\n\n")[2].partition(end)[0]


def test_the_first_prompt_is_shown_with_its_special_tokens(submit, rows, tiny_model):
    result = submit(rows, "--dry-run", "--system", "Be kind.")
    assert result.exit_code == 0
    prompt = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nSay: a<|im_end|>\n<|im_start|>assistant\n\n\n"
    assert result.stdout.startswith(f"The first prompt, as {tiny_model} will read it:\n\n{prompt}")


def test_the_shared_prefix_is_shown_with_its_length(submit, rows):
    """A token is a byte or a special token; the last of the prompt may merge with the text in another tokenizer."""
    shown = submit(rows, "--dry-run").stdout
    length = int(re.search(r"Shared by all rows: (\d+) tokens, computed once:", shown).group(1))
    prefix = block(shown, "Shared by all rows")
    assert "<|im_start|>user\nSay: ".startswith(prefix)
    assert length == len(prefix.replace("<|im_start|>", "s")) > len("suser\n")


def test_raw_is_the_prompt_alone(submit, rows):
    shown = submit(rows, "--dry-run", "--raw", "--prompt", "{{{text}}} and {text}").stdout
    assert block(shown, "The first prompt") == "{a} and a"
    assert block(shown, "Shared by all rows") in ("{", "")


def test_where_nothing_is_shared_it_is_said_in_words(submit, rows):
    shown = submit(rows, "--dry-run", "--raw", "--prompt", "{text}.").stdout
    assert "\n\nPrompts have no beginning in common that could be computed once.\n\nA row's own" in shown
    assert "Shared by all" not in shown


def test_a_prompt_without_columns_is_shared_but_for_its_last_token(submit, rows):
    shown = submit(rows, "--dry-run", "--raw", "--prompt", "always the same").stdout
    assert block(shown, "Shared by all rows: 14 tokens") == "always the sam"
    assert re.search(r"^ +1  █{40}  6$", shown, re.MULTILINE)


def test_the_histogram_counts_every_row_that_can_be_answered(submit, rows):
    shown = submit(rows, "--dry-run", "--raw", "--prompt", "{text}.").stdout
    lines = re.findall(r"^ +(\d+)-(\d+)  █* +(\d+)$", shown, re.MULTILINE)
    assert [(int(low), int(high), int(count)) for low, high, count in lines] == [
        (2, 3, 2), (4, 7, 0), (8, 15, 1), (16, 31, 0), (32, 63, 1),
    ]  # fmt: skip
    assert "A row's own prompt tokens, over 4 rows:" in shown


def test_what_is_scored_is_counted(submit, table):
    rows = table(text=["a", "b"], answer=["four", "three"])
    shown = submit(rows, "--dry-run", "--raw", "--score", "answer").stdout
    assert "The text of answer will be scored behind the prompt: 11 tokens in these rows." in shown
    assert "by the length of the answers" not in shown


def test_the_question_of_each_label_is_shown(submit, rows):
    shown = submit(rows, "--dry-run", "--choices", "good,bad", "--multi-label").stdout
    assert 'whether the prompt goes on with "good: yes" or with "good: no".' in shown


def test_rows_that_will_be_errors_are_named(submit, rows):
    shown = submit(rows, "--dry-run", "--raw").stdout
    assert 'Row 1 will be an error (null): The column "text" is null in this row' in shown
    assert "Row 3 will be an error (too_long): The prompt has 605 tokens; the model's context is 512" in shown
    assert "1 row holds special tokens of the model, which stay plain text." in shown


def test_the_estimate_counts_tokens_and_ends_with_what_to_do(submit, rows):
    shown = submit(rows, "--dry-run", "--raw", "--prompt", "{text}.", "--max-tokens", "9").stdout
    tokens = sum(len(text) + 1 for text in ("a", "bb", "say <|im_end|>", "c" * 40))
    assert f"Estimate for the input: 6 rows, {tokens} prompt tokens to compute," in shown
    assert re.search(r"0% of all prompt tokens reused, .* s to .* s, by the length of the answers \(up to 9 ", shown)
    assert shown.endswith("Nothing was recorded. Leave out --dry-run to run it.\n")


def test_a_shape_is_told_and_one_that_cannot_be_is_refused(submit, rows, told):
    shown = submit(rows, "--dry-run", "--regex", "[a-z]+").stdout
    assert "\nEach answer will be held to the regular expression while it is written.\n" in shown
    assert "unclosed group" in told(submit(rows, "--dry-run", "--regex", "(a"), 2)


def test_samples_and_logprobs_are_told(submit, rows):
    shown = submit(rows, "--dry-run", "--temperature", "1", "--n", "3", "--logprobs", "5").stdout
    assert "by the length of the answers (3 to a row, up to 4 tokens each), as timed here just now.\n" in shown
    assert "Each token's log-probability will be recorded, and those of the 5 likeliest in its place.\n" in shown
    shown = submit(rows, "--dry-run", "--logprobs", "0").stdout
    assert "Each token's log-probability will be recorded.\n" in shown


def test_labels_take_one_time_only(submit, rows):
    shown = submit(rows, "--dry-run", "--choices", "good,bad").stdout
    assert re.search(r"of all prompt tokens reused, [\d.]+ s, as timed here just now\.\n", shown)


def test_of_a_large_input_some_rows_from_all_over_it_are_looked_at(submit, table, monkeypatch):
    """A third of it has the same page. No row's text has a length of its own, so that the estimate is exact."""
    monkeypatch.setattr(foretelling, "_SAMPLE_ROWS", 48)
    pages = ["A long text to read. " * 5 if place < 80 else f"{place:<105}" for place in range(240)]
    rows = table(page=pages)
    flags = ("--raw", "--prompt", "{page}", "--choices", "a,b", "--no-dedupe")
    shown = submit(rows, "--dry-run", *flags).stdout
    assert "Estimate for the input, by 40 rows from all over the table: 240 rows, " in shown
    told = int(re.search(r"(\d+)% of all prompt tokens reused", shown)[1])
    assert told == pytest.approx(32, abs=5)
    limited = submit(rows, "--dry-run", *flags, "--limit", "5").stdout
    assert "Estimate for the input: 5 rows, " in limited


def test_where_only_the_beginning_was_looked_at_it_is_said(submit, tmp_path, monkeypatch):
    monkeypatch.setattr(foretelling, "_SAMPLE_ROWS", 32)
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE rows (text TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?)", [("a",)] * 3000)
    connection.close()
    shown = submit("--sql", "SELECT * FROM rows", "--from", f"sqlite:///{tmp_path}/rows.db", "--dry-run").stdout
    assert re.search(r"Estimate for the first [\d,]+ rows \(there are more\), by 32 of the first [\d,]+ rows: ", shown)
    assert "\nRows behind those were not looked at: they may share more or less.\n" in shown


def test_nothing_is_recorded(home, submit, rows):
    assert submit(rows, "--dry-run", "--output", home.path.parent / "out.csv").exit_code == 0
    assert [path.name for path in home.path.iterdir()] == ["tokenizers"]
    assert not (home.path.parent / "out.csv").exists()
    assert home.call("jobs", "--json").stdout == "[]\n"


def test_standard_input_cannot_be_rehearsed(submit, told):
    assert told(submit("-", "--dry-run", stdin=b'{"text": "a"}\n'), 1) == (
        "Standard input cannot be looked at before it is answered: it can be read only once. "
        "Write it to a file first, such as rows.jsonl."
    )


def test_when_no_row_can_be_answered_it_says_why(submit, table, told):
    assert told(submit(table(text=["x" * 600, None]), "--dry-run"), 2).startswith(
        "Of 2 rows looked at, none can be answered. The first says: The prompt has 624 tokens; "
    )


def test_an_input_without_rows(submit, tmp_path, told):
    (tmp_path / "rows.csv").write_text("text\n")
    message = told(submit(tmp_path / "rows.csv", "--dry-run"), 1)
    assert message == "The input has no rows, so there is nothing to answer."


def test_what_memory_it_takes_is_told(submit, table):
    short, long = (
        submit(table(text=["a", "x" * length]), "--dry-run", "--max-tokens", tokens).stdout
        for length, tokens in ((2, 4), (300, 100))
    )
    sizes = [
        int(re.search(r"Memory beside the model: roughly (\d+) MiB\.\n", shown).group(1)) for shown in (short, long)
    ]
    assert 16 <= sizes[0] <= sizes[1] < 40


def test_the_column_that_would_be_better_first_is_named(submit, table):
    rows = table(number=[f"{place:x}" for place in range(40)], page=["A long text to read. " * 9] * 40)
    shown = submit(rows, "--dry-run", "--raw", "--choices", "a,b", "--prompt", "{number}: {page}").stdout
    told = re.search(r"(\d+)% of all prompt tokens reused", shown)
    better = re.search(r"With \{page\} before the other columns of the prompt, (\d+)% would be reused\.", shown)
    assert int(better[1]) > 80 > int(told[1])
    shown = submit(rows, "--dry-run", "--raw", "--choices", "a,b", "--prompt", "{page}: {number}").stdout
    assert abs(int(re.search(r"(\d+)% of all prompt tokens reused", shown)[1]) - int(better[1])) <= 2
    assert "before the other columns" not in shown


def test_what_rows_share_that_meet_nowhere_in_a_look_at_them_is_told_too(home, submit, table, monkeypatch):
    monkeypatch.setattr(foretelling, "_SAMPLE_ROWS", 40)
    home.variables["PIPELINE_SHARD_ROWS"] = "64"
    pages = [f"{place * 7 % 250:>4} is the page. " + "A long text to read. " * 12 for place in range(1000)]
    rows = table(number=[f"{place:x}" for place in range(1000)], page=pages)
    for prompt, words in (
        ("{number}: {page}", r"With \{page\} before the other columns of the prompt, (\d+)% would be reused\."),
        ("{page}: {number}", r"Rows are answered sorted by page first: then about (\d+)%"),
    ):
        shown = submit(rows, "--dry-run", "--raw", "--choices", "a,b", "--prompt", prompt).stdout
        assert int(re.search(words, shown)[1]) == pytest.approx(74, abs=4)


def test_rows_of_the_same_prompt_are_counted(submit, table):
    rows = table(text=["a", "b", "a", "a", None])
    assert "2 rows have the same prompt as another, and will share its answer." in submit(rows, "--dry-run").stdout
    for flags in (("--no-dedupe",), ("--temperature", "1")):
        assert "the same prompt as another" not in submit(rows, "--dry-run", *flags).stdout
