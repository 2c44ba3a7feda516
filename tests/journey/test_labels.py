"""Whether the labels are sensible: the demo's prompt on sentences that people have rated."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

REVIEWS = Path(__file__).parents[3] / "shared/data/amazon_review_snippets.parquet"
PROMPT = Path(__file__).parents[2] / "examples/sentiment.txt"


@pytest.mark.skipif(not REVIEWS.exists(), reason="the rated reviews are not on this machine")
def test_the_small_model_agrees_with_people(home, table):
    rated = [row for row in pq.read_table(REVIEWS).to_pylist() if abs(row["rating"]) > 1]
    rows = random.Random(1).sample(rated, 100)
    path = table(review=[row["text"] for row in rows])
    done = home.call(
        *("submit", path, "--name", "signs", "--model", "smollm2-135m", "--raw"),
        *("--prompt", f"@{PROMPT}", "--choices", "positive,negative"),
    )
    assert done.exit_code == 0, done.stderr
    labels = {row_id: answer[3] for row_id, answer in home.answers("signs").items()}
    agreed = [labels[place] == ("positive" if row["rating"] > 0 else "negative") for place, row in enumerate(rows)]
    assert sum(agreed) / len(agreed) >= 0.85
