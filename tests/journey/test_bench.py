"""`pipeline bench` measures; what `--calibrate` has found decides what later jobs share."""

import json
import re
from pathlib import Path

import pytest


@pytest.fixture
def bench(home, tiny_model):
    return lambda *arguments: home.call("bench", "--model", tiny_model, *arguments)


def test_the_speed_at_a_few_sizes(bench, home):
    result = bench()
    assert result.exit_code == 0
    head, *lines, rates = result.stdout.splitlines()
    assert head.split("\t") == ["rows", "prompt tokens each", "prefill tokens/s", "decode tokens/s"]
    assert [line.split("\t")[:2] for line in lines] == [["1", "511"], ["16", "64"], ["64", "16"]]
    assert re.fullmatch(
        r"Matrix products: .* GFLOP/s at the sizes of these prompts, .* for a large square one\.", rates
    )
    assert list(home.path.iterdir()) == []


def test_json(bench):
    found = json.loads(bench("--json").stdout)
    assert [size["rows"] for size in found["sizes"]] == [1, 16, 64]
    assert found["large_rate"] > 0


def test_a_calibration_is_kept_and_decides_what_jobs_share(bench, home, submit, table, tiny_model):
    """Two documents of 40 characters, four rows each: shared where levels are cheap, not where they are dear."""
    result = bench("--calibrate")
    assert result.exit_code == 0
    place = Path(re.search(rf"Kept in (.*); jobs with {tiny_model} go by it\.\n", result.stdout).group(1))
    kept = json.loads(place.read_text())
    assert kept["model"] == str(tiny_model)
    assert f"sharing   measured: {tiny_model} on " in home.call("doctor").stdout

    rows = table(text=[letter * 40 + str(row) for letter in "ab" for row in range(4)])
    reused = {}
    for name, level_s in (("cheap", 0.0), ("dear", 1e9)):
        costs = {"token_s": 1.0, "key_s": 0.0, "level_s": level_s, "reader_s": 0.0}
        place.write_text(json.dumps(kept | {"costs": costs}))
        assert submit(rows, "--name", name, "--raw", "--choices", "x,y").exit_code == 0
        reused[name] = min(result.reused_tokens for result in home.results(name))
    assert reused["cheap"] >= reused["dear"] + 40


def test_a_model_that_is_not_there(home, told):
    message = told(home.call("bench", "--model", "/no/model"), 1)
    assert message == "There is no model at /no/model: no such file or directory."
