from jobs.announcement import announcement
from pipeline.spec import build_spec


def test_token_ids_are_not_called_a_text() -> None:
    spec = build_spec(
        {"inputs": ["/data/rows.csv"], "model": "m", "tokens_column": "ids", "raw": True, "embed": "last"}
    )
    assert announcement(spec) == "Each row of rows.csv will get a vector from m; its prompt is the token ids in ids."
