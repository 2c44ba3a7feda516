import pytest
from prometheus_client import CollectorRegistry

from pipeline.inference.vitals import Vitals
from pipeline.rows import BatchTiming, Completion, Status
from workers.metrics.answered import AnsweredMetrics, DeviceMetrics


@pytest.fixture
def registry():
    return CollectorRegistry()


def test_a_batch_counts_by_outcome_kind_and_stage(registry):
    metrics = AnsweredMetrics(registry)
    rows = [
        Completion(0, "a", Status.OK, "x", prompt_tokens=10),
        Completion(1, "b", Status.OK, "x", prompt_tokens=4),
        Completion(2, "c", Status.ERROR, error_type="null", error="It is null."),
    ]
    metrics.count(rows, BatchTiming(prefill_s=0.2, decode_s=3.0, computed_tokens=9, reused_tokens=5, output_tokens=7))
    value = registry.get_sample_value
    outcomes = {outcome: value("pipeline_rows_total", {"outcome": outcome}) for outcome in ("ok", "truncated", "error")}
    assert outcomes == {"ok": 2, "truncated": 0, "error": 1}
    assert [value("pipeline_tokens_total", {"kind": kind}) for kind in ("computed", "reused", "output")] == [9, 5, 7]
    assert value("pipeline_batches_answered_total") == 1
    assert value("pipeline_padding_spared_tokens_total") == 6
    assert value("pipeline_stage_seconds_sum", {"stage": "decode"}) == 3.0
    assert value("pipeline_stage_seconds_bucket", {"stage": "prefill", "le": "0.25"}) == 1
    assert value("pipeline_stage_seconds_bucket", {"stage": "prefill", "le": "0.1"}) == 0


def test_the_device_is_asked_at_each_look(registry):
    told = [Vitals(3, {"device": 100, "host": 20}, {"held": 8, "in_use": 5}, {"used": 6, "total": 9}), Vitals()]
    registry.register(DeviceMetrics(lambda: 2.5, lambda: told[0]))
    value = registry.get_sample_value
    assert value("pipeline_busy_seconds_total") == 2.5
    assert value("pipeline_prefix_evictions_total") == 3
    assert value("pipeline_prefix_bytes", {"memory": "host"}) == 20
    assert value("pipeline_lanes", {"state": "in_use"}) == 5
    assert value("pipeline_device_memory_bytes", {"state": "total"}) == 9
    del told[0]
    assert value("pipeline_device_memory_bytes", {"state": "total"}) is None
