"""`pipeline profile` takes what submit takes, answers some rows, and leaves nothing behind."""

import json
import re

import pytest


@pytest.fixture
def rows(table):
    return table(text=[f"row {place} " + "x" * place for place in range(40)])


@pytest.fixture
def profile(home, tiny_model):
    def run(*arguments):
        usual = ("--model", tiny_model, "--prompt", "Say: {text}")
        short = () if "--choices" in arguments else ("--max-tokens", "4")
        return home.call("profile", *usual, *short, *arguments)

    return run


def test_parts_are_shown_from_the_largest_down_and_nothing_is_recorded(home, profile, rows):
    result = profile(rows, "--rows", "6")
    assert result.exit_code == 0
    table, _, told = result.stdout.partition("\n\n")
    head, *lines = table.splitlines()
    assert head == "part\tshare\tus/token"
    shares = {name: float(share.rstrip("%")) for name, share, _ in (line.split("\t") for line in lines)}
    assert {"embedding", "attention: projections", "MLP", "LM head", "sampling"} < shares.keys()
    assert sum(shares.values()) == pytest.approx(100, abs=1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert re.search(r"^[\d,]+ prompt tokens and \d+ of answers in [\d.]+ s: [\d,]+ tokens/s\.$", told, re.MULTILINE)
    assert re.search(r"FLOP/s, which is \d+% of what matrix products of the model's own sizes reach here \(", told)
    assert told.endswith("rates without it. Nothing was recorded.\n")
    assert [path.name for path in home.path.iterdir()] == ["tokenizers"]


def test_json(profile, rows):
    found = json.loads(profile(rows, "--rows", "3", "--json").stdout)
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert 3 <= found["output_tokens"] <= 12
    assert found["rate"] == pytest.approx(found["operations"] / found["seconds"])


def test_so_many_rows_are_answered(profile, rows):
    few, all_rows = (
        json.loads(profile(rows, "--choices", "a,b", "--json", *more).stdout)["computed_tokens"]
        for more in (["--rows", "2"], [])
    )
    assert few < 100 < all_rows


def test_a_job_file_will_do(home, profile, rows, tmp_path):
    (tmp_path / "job.yaml").write_text(f"inputs: {rows.name}\nlimit: 1\nname: night\n")
    found = json.loads(profile("--job", tmp_path / "job.yaml", "--choices", "a,b", "--json").stdout)
    assert found["computed_tokens"] < 60


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--prompt", "{tekst}"], 1, 'The input has no column "tekst". Did you mean "text"? Its columns are: text.'),
        (["--rows", "0"], 2, "Invalid value for '--rows': 0 is not in the range x>=1."),
        (["--output", "x.csv"], 2, "No such option '--output'."),
        (["--model", "/no/model"], 1, "There is no model at /no/model: no such file or directory."),
    ],
)
def test_what_is_wrong_is_told(profile, rows, arguments, status, message):
    result = profile(rows, *arguments)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr


def test_an_input_without_rows(profile, tmp_path, told):
    (tmp_path / "rows.csv").write_text("text\n")
    assert told(profile(tmp_path / "rows.csv"), 1) == "The input has no rows, so there is nothing to answer."
