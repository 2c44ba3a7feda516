"""Each task on the real small model, from the flags to the result, its value against plain transformers."""

import json
import math
import shutil

import pyarrow.parquet as pq
import pytest
import torch
import yaml
from transformers import AutoTokenizer

from pipeline.inference import attention

REVIEWS = ["It broke after a day.", "Lovely, and the battery lasts for weeks.", None]
PROMPT = "Review: {text}\nThis review is about"
LABELS = ("battery", "battery life", "colour")


@pytest.fixture
def logprob(small_model, small_tokenizer):
    """Of a text behind another, by a whole forward of plain transformers."""
    tokenizer = AutoTokenizer.from_pretrained(small_tokenizer)

    def measure(before, text):
        start, ids = len(tokenizer(before)["input_ids"]), tokenizer(before + text, return_tensors="pt")["input_ids"]
        small_model.network.set_attn_implementation("sdpa")
        with torch.no_grad():
            logprobs = small_model.network(ids).logits[0].log_softmax(-1)
        small_model.network.set_attn_implementation(attention.registered())
        return sum(logprobs[place - 1, token].item() for place, token in enumerate(ids[0].tolist()) if place >= start)

    return measure


@pytest.fixture
def run(home, table, small_model, small_tokenizer, monkeypatch):
    """The job's results, and its rows as exported. What takes half a minute, to load the model, is done already."""
    monkeypatch.setattr("pipeline.means.load_model", lambda *_, **__: small_model)
    shutil.copytree(small_tokenizer, home.path / "tokenizers" / small_tokenizer.name)

    def submit(*flags, **columns):
        given = ("--name", "night", "--model", "smollm2-135m", "--raw", "--prompt", PROMPT, *flags)
        done = home.call("submit", table(**columns), *given)
        assert done.exit_code == 0, done.stderr
        assert home.faults("night") == []
        exported = home.call("results", "night", "--format", "jsonl").stdout
        return home.results("night"), [json.loads(line) for line in exported.splitlines()]

    return submit


def shares(weights):
    return [math.exp(weight) / sum(map(math.exp, weights)) for weight in weights]


def test_labels_one_of_which_begins_another_with_the_prior_corrected(run, logprob):
    flags = ("--choices", ",".join(LABELS), "--length-normalize", "--prior-correction")
    results, exported = run(*flags, text=REVIEWS)

    def means(text):
        return [logprob(PROMPT.format(text=text), f" {label}") / len(label.split()) for label in LABELS]

    prior = means("N/A")
    for result, row, review in zip(results, exported, REVIEWS[:2], strict=False):
        expected = shares([mean - before for mean, before in zip(means(review), prior, strict=True)])
        assert [score.probability for score in result.scores] == pytest.approx(expected, abs=1e-3)
        assert (result.label, result.score) == (
            LABELS[expected.index(max(expected))],
            pytest.approx(max(expected), abs=1e-3),
        )
        assert [score["label"] for score in row["scores"]] == list(LABELS)
        assert [score["probability"] for score in row["scores"]] == pytest.approx(expected, abs=1e-3)
    assert (results[2].error_type, exported[2]["scores"]) == ("null", None)


def test_several_labels_each_by_itself(run, logprob):
    results, exported = run("--choices", ",".join(LABELS), "--multi-label", text=REVIEWS)
    for result, row, review in zip(results, exported, REVIEWS[:2], strict=False):
        before = PROMPT.format(text=review)
        odds = [logprob(before, f" {label}: yes") - logprob(before, f" {label}: no") for label in LABELS]
        expected = [1 / (1 + math.exp(-each)) for each in odds]
        assert [score.probability for score in result.scores] == pytest.approx(expected, abs=1e-3)
        likely = sorted(zip(expected, LABELS, strict=True), reverse=True)
        assert row["labels"] == list(result.labels) == [label for share, label in likely if share >= 0.5]
        assert result.label == likely[0][1]
    assert exported[2]["labels"] is None


def test_a_text_is_scored_behind_its_prompt(run, logprob, small_tokenizer):
    answers = ["a phone that broke.", "", "the battery, which lasts"]
    reviews = [*REVIEWS[:2], "Good."]
    results, exported = run("--score", "answer", "--logprobs", "1", text=reviews, answer=answers)
    tokenizer = AutoTokenizer.from_pretrained(small_tokenizer)
    assert (results[1].status, results[1].error_type, exported[1]["logprob"]) == ("error", "empty", None)
    for place in (0, 2):
        result, row, text = results[place], exported[place], f" {answers[place]}"
        expected, ids = logprob(PROMPT.format(text=reviews[place]), text), tokenizer(text)["input_ids"]
        assert (result.status, result.output_tokens) == ("ok", len(ids))
        assert row["logprob"] == result.logprob == pytest.approx(expected, abs=2e-3)
        assert row["perplexity"] == result.perplexity == pytest.approx(math.exp(-expected / len(ids)), rel=1e-3)
        assert [token["token_id"] for token in row["logprobs"]] == ids
        assert sum(token["logprob"] for token in row["logprobs"]) == pytest.approx(expected, abs=2e-3)
    assert "output" not in exported[0]


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_prompt_becomes_a_vector(run, home, small_model, small_tokenizer, tmp_path, pooling):
    reviews = [*REVIEWS, "Good."]
    results, exported = run("--embed", pooling, text=reviews)
    tokenizer = AutoTokenizer.from_pretrained(small_tokenizer)
    path = tmp_path / "vectors.parquet"
    assert home.call("results", "night", "--output", path).exit_code == 0
    column = pq.read_table(path)["embedding"]
    assert str(column.type).endswith(f"[{small_model.network.config.hidden_size}]")
    assert (results[2].error_type, exported[2]["embedding"], column[2].as_py()) == ("null", None, None)
    for place in (0, 1, 3):
        ids = tokenizer(PROMPT.format(text=reviews[place]), return_tensors="pt")["input_ids"]
        small_model.network.set_attn_implementation("sdpa")
        with torch.no_grad():
            states = small_model.network.base_model(ids).last_hidden_state[0]
        small_model.network.set_attn_implementation(attention.registered())
        expected = torch.nn.functional.normalize(states[-1] if pooling == "last" else states.mean(0), dim=0)
        found = torch.tensor(column[place].as_py())
        assert (found - expected).abs().max() <= 1e-4
        assert found.tolist() == pytest.approx(exported[place]["embedding"])
        assert (results[place].prompt_tokens, results[place].output_tokens) == (ids.shape[1], 0)


def test_several_questions_over_one_row(run, logprob, small_model, small_tokenizer, tmp_path):
    """Each behind the same text, which is computed once."""
    questions = {
        "mood": {"prompt": " a thing that is", "choices": ["good", "bad"]},
        "gist": {"prompt": " the", "max_tokens": 8},
        "fit": {"prompt": " my", "score": "product"},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"questions": questions}, sort_keys=False))
    reviews, products = [REVIEWS[0] * 9, REVIEWS[1] * 6], ["phone that broke.", "battery"]
    results, exported = run("--job", tmp_path / "job.yaml", text=reviews, product=products)
    tokenizer = AutoTokenizer.from_pretrained(small_tokenizer)
    for place, (review, product) in enumerate(zip(reviews, products, strict=True)):
        mood, gist, fit = results[3 * place : 3 * place + 3]
        before = PROMPT.format(text=review)
        expected = shares([logprob(before + questions["mood"]["prompt"], f" {label}") for label in ("good", "bad")])
        assert [score.probability for score in mood.scores] == pytest.approx(expected, abs=1e-3)
        ids = tokenizer(before + questions["gist"]["prompt"], return_tensors="pt")["input_ids"]
        small_model.network.set_attn_implementation("sdpa")
        whole = small_model.network.generate(ids, max_new_tokens=8, do_sample=False)[0]
        small_model.network.set_attn_implementation(attention.registered())
        assert gist.output == tokenizer.decode(whole[ids.shape[1] :], skip_special_tokens=True)
        assert fit.logprob == pytest.approx(logprob(before + questions["fit"]["prompt"], f" {product}"), abs=2e-3)
        row = exported[place]
        assert (row["mood"], row["gist"], row["fit"]) == (mood.label, gist.output, fit.logprob)
        # What is its own behind the text, which each has to read.
        assert all(found.prompt_tokens - found.reused_tokens < 8 for found in (mood, gist, fit))
