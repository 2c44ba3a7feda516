import pytest

from pipeline.inference.loading import adopt
from pipeline.inference.memory import predicted_bytes


def test_lanes_and_the_prefix_are_counted_by_their_tokens(llama):
    model = adopt(llama)
    token = model.shape.bytes_per_token()
    none = predicted_bytes(model, 0, [10] * 8, 20)
    assert predicted_bytes(model, 5, [10] * 8, 20) - none == pytest.approx(1.1 * 5 * token, abs=1)
    assert predicted_bytes(model, 0, [10] * 8, 30) - none == pytest.approx(1.1 * 8 * (48 - 32) * token, abs=1)


def test_a_prefix_longer_than_a_forward_makes_it_so_long(llama):
    model = adopt(llama)
    widths = (2 * 64 + 3 * 96) * 4 + model.shape.bytes_per_token()
    more = predicted_bytes(model, 5000, [10], 20) - predicted_bytes(model, 4000, [10], 20)
    assert more == pytest.approx(1.1 * 1000 * widths, abs=1)
