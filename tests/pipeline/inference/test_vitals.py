import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.stem import Node
from pipeline.inference.vitals import Vitals, vitals
from pipeline.rows import Generate

SHAPE = LaneShape(layers=1, kv_heads=1, dim=1, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize(("host_bytes", "evictions"), [(0, 2), (8, 3)])
def test_what_leaves_a_memory_for_lack_of_room_is_counted(host_bytes, evictions):
    """Of three prefixes two leave the device; of these, one leaves the host again, where there is room for one."""
    store = PrefixStore(8, host_bytes=host_bytes)
    for token in range(3):
        store.put((token,), Node(0, Lanes(SHAPE, 1, 1)))
    assert store.evictions == evictions


def test_lanes_in_use_are_seen_while_rows_are_decoded_and_prefixes_stay(llama, make_batch):
    model = adopt(llama)
    engine = Engine(model, PrefixStore(1 << 20), lambda token_ids: "")
    seen = set()
    step = model.network.register_forward_pre_hook(lambda *_: seen.add(engine.lanes.in_use))
    engine.answer(make_batch([3, 4, 5]), Generate(max_tokens=4))
    step.remove()
    found = vitals([engine], "cpu")
    assert max(seen) == 3
    assert found.lanes["in_use"] == 0
    assert found.lanes["held"] >= 3
    assert found.prefix_bytes["device"] == engine.prefixes.nbytes > 0
    assert (found.evictions, found.device_bytes) == (0, {})


def test_where_nothing_is_loaded_there_is_nothing():
    assert vitals([], "cuda:0") == Vitals(
        prefix_bytes={"device": 0, "host": 0}, lanes={"held": 0, "in_use": 0}, device_bytes={}
    )
