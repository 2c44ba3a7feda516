"""Traces of jobs that one process answers, as a collector gets them."""

import sys

import pytest

from tests.otlp_collector import collecting
from tests.ports import free_port

TEXTS = ["a cat", "some dogs", None, "three birds", "four", "and five"]


@pytest.fixture
def collector():
    with collecting() as collector:
        yield collector


@pytest.fixture
def submit_traced(make_home, table, tiny_model):
    rows = table(text=TEXTS)

    def submit(endpoint, **variables):
        small = {"PIPELINE_SHARD_ROWS": "4", "PIPELINE_BATCH_ROWS": "2"}
        home = make_home(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **small, **variables)
        asked = ("--name", "night", "--model", tiny_model, "--prompt", "Say: {text}", "--max-tokens", "4")
        done = home.call("submit", rows, *asked)
        assert done.exit_code == 0, done.output
        assert home.figures("night").finished == len(TEXTS)
        return done, home

    return submit


def test_a_batch_is_a_trace_from_its_submission_to_its_record(submit_traced, collector):
    _, home = submit_traced(collector.url)
    traces = collector.traces("night")
    assert collector.services == {"pipeline"}
    assert len(traces) == home.figures("night").batches["done"] == 3
    assert len({span.trace_id for span in collector.spans}) == 3
    for root, *spans in traces.values():
        assert [span.name for span in spans] == ["cut", "encode", "queue", "take in", "compute", "detokenize", "record"]
        assert {span.trace_id for span in spans} == {root.trace_id}
        assert root.parent_id == b""
        assert {span.parent_id for span in spans} == {root.span_id}
        ends = [root.begun_at, *(moment for span in spans for moment in (span.begun_at, span.ended_at)), root.ended_at]
        assert ends == sorted(ends)
        assert all(span.begun_at < span.ended_at for span in spans if span.name in ("cut", "encode", "compute"))
        assert root.facts["outcome"] == spans[-1].facts["outcome"] == "recorded"
        assert root.facts["worker"] == spans[4].facts["worker"] != ""
    told = [root.facts for root, *_ in traces.values()]
    figures = home.figures("night")
    assert sum(facts["rows_ok"] + facts["rows_truncated"] for facts in told) == 5
    assert sum(facts["reused_tokens"] for facts in told) == figures.reused_tokens > 0
    assert sum(facts["output_tokens"] for facts in told) == figures.output_tokens
    assert [traces[batch][1].facts["rows"] for batch in (0, 2)] == [4, 2]
    everything = repr(collector.spans)
    assert [text for text in TEXTS if text and text in everything] == []


def test_a_collector_that_is_away_costs_no_row_and_is_told_of_once(submit_traced):
    away = f"http://127.0.0.1:{free_port()}"
    done, _ = submit_traced(away, OTEL_EXPORTER_OTLP_TIMEOUT="0.2", OTEL_BSP_SCHEDULE_DELAY="10")
    assert done.stderr.count("Traces cannot be sent to where OTEL_EXPORTER_OTLP_ENDPOINT points") == 1
    assert done.stderr.count("Traces") == 1
    assert "Traceback" not in done.stderr


def test_without_the_extra_a_sentence_says_how_to_have_traces(submit_traced, collector, monkeypatch):
    monkeypatch.delitem(sys.modules, "workers.tracing.exporter", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    done, _ = submit_traced(collector.url)
    assert "`pip install 'pipeline[otel]'` brings what is missing." in done.stderr.replace("\n", " ")
    assert collector.spans == []
