"""What Prometheus reads of a fleet at work, and a collector of traces is sent, held to the database."""

from tests.fleet.marks import on_sqlite

WAY = ["cut", "encode", "enqueue", "queue", "take in", "compute", "detokenize", "record"]


@on_sqlite
def test_each_process_tells_of_its_part(fleet, rows, name, collector):
    fleet.until(lambda: all(read(fleet).values()))
    before = read(fleet)
    fleet.submit(rows, name)
    fleet.until_done(name)
    figures = fleet.seen.figures(name)
    # A batch counts once it is recorded, and a shard once its line is read.
    fleet.until(lambda: grown(fleet, before, 'pipeline_rows_total{outcome="truncated"}') >= figures.truncated)
    assert grown(fleet, before, 'pipeline_rows_total{outcome="ok"}') == figures.ok
    assert grown(fleet, before, "pipeline_batches_answered_total") == figures.batches["done"]
    for kind in ("computed", "reused", "output"):
        tokens = grown(fleet, before, f'pipeline_tokens_total{{kind="{kind}"}}')
        assert tokens == getattr(figures, f"{kind}_tokens")
    shards = -(-figures.total // 16)
    fleet.until(lambda: grown(fleet, before, "pipeline_shards_encoded_total") >= shards)
    dispatcher, gpu = fleet.metrics("dispatcher"), fleet.metrics("gpu0")
    assert dispatcher['pipeline_workers{role="gpu"}'] == 2
    assert dispatcher['pipeline_queue_tokens{state="pending"}'] == 0
    assert dispatcher["pipeline_lease_expiries_total"] >= 0
    assert gpu['pipeline_lanes{state="held"}'] > 0
    assert gpu["pipeline_busy_seconds_total"] > 0
    assert gpu['pipeline_stage_seconds_bucket{le="+Inf",stage="decode"}'] > 0
    fleet.until(lambda: len(collector.traces(name)) >= figures.batches["done"])
    for root, *spans in collector.traces(name).values():
        assert [span.name for span in spans] == WAY
        assert {(span.trace_id, span.parent_id) for span in spans} == {(root.trace_id, root.span_id)}
        assert root.begun_at <= spans[0].begun_at
        assert spans[-1].ended_at == root.ended_at
        assert root.facts["attempt"] == 1


def read(fleet):
    return {name: fleet.metrics(name) for name in fleet.posts}


def grown(fleet, before, sample):
    return sum(now.get(sample, 0) - before[name].get(sample, 0) for name, now in read(fleet).items())
