import os
import time

from prometheus_client import CollectorRegistry

from pipeline.encoding import Encoded
from pipeline.rows import Completion, Status
from workers.metrics.encoded import EncodedMetrics


def test_processes_of_the_pool_are_counted_where_they_were_started():
    registry = CollectorRegistry()
    metrics = EncodedMetrics(registry)
    failed = Completion(0, "k", Status.ERROR, error_type="null", error="It is null.")
    with metrics.listening():
        for _ in range(2):
            if (child := os.fork()) == 0:
                metrics.tell(Encoded([], [], [failed], 0.5, copies=[failed, failed], prompt_tokens=70))
                os._exit(0)
            os.waitpid(child, 0)
    value = registry.get_sample_value
    assert value("pipeline_shards_encoded_total") == 2
    assert value("pipeline_rows_total", {"outcome": "error"}) == 2
    assert value("pipeline_rows_total", {"outcome": "copied"}) == 4
    assert value("pipeline_prompt_tokens_encoded_total") == 140
    assert value("pipeline_stage_seconds_sum", {"stage": "encode"}) == 1.0


def test_what_keeps_a_process_from_encoding_is_heard_until_one_encodes():
    heard = []
    metrics = EncodedMetrics(CollectorRegistry(), heard.append)
    with metrics.listening():
        metrics.tell_trouble("The disk is full: " + "/💾" * 4000)
        metrics.tell(Encoded([], [], [], 0.5))
    assert heard == ["The disk is full: " + "/💾" * 141, None]


def test_nobody_waits_for_a_reader():
    metrics = EncodedMetrics(CollectorRegistry())
    began = time.monotonic()
    for _ in range(5000):
        metrics.tell(Encoded([], [], [], 0.5))
    assert time.monotonic() - began < 60
