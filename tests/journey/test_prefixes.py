"""What all rows of a job begin with is computed once for all processes that come after, whatever became of its file."""

import pytest

PROMPT = "Read what a guest of our hotel has written, and say in one word how they feel about their stay. Guest: {text}"
#: A byte a token, up to the one that what follows could change.
SHARED = PROMPT.index(":")


@pytest.fixture
def job(table, tiny_model):
    rows = table(text=["quiet", "never again", "nice view"])
    return ("submit", str(rows), "--model", str(tiny_model), "--raw", "--max-tokens", "4", "--prompt", PROMPT, "--name")


def test_the_next_process_reads_what_the_first_has_computed(home, job):
    assert home.call(*job, "first").exit_code == 0
    done = home.start(*job, "second")
    assert (done.wait(), "is ignored" in done.errors) == (0, False), done.errors
    assert home.figures("first").computed_tokens - home.figures("second").computed_tokens == SHARED
    assert home.answers("first") == home.answers("second")


def test_a_damaged_file_is_told_and_changes_nothing(home, job):
    assert home.call(*job, "first").exit_code == 0
    (file,) = (home.path / "prefixes").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    done = home.start(*job, "second")
    assert done.wait() == 0
    assert f"The stored prefix {file} is ignored and deleted. It is damaged" in done.errors
    assert home.figures("first").computed_tokens == home.figures("second").computed_tokens
    assert home.answers("first") == home.answers("second")


def test_turned_off_it_leaves_no_prompt_behind(make_home, job):
    usual, off = make_home(), make_home(PIPELINE_PREFIX_DISK_BYTES="0")
    assert usual.call(*job, "first").exit_code == 0
    assert len(list((usual.path / "prefixes").iterdir())) == 1
    assert off.call(*job, "second").exit_code == 0
    assert list((off.path / "prefixes").iterdir()) == []
    assert usual.answers("first") == usual.answers("second")
    assert usual.figures("first").computed_tokens == usual.figures("second").computed_tokens
