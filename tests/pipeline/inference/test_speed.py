import pytest

from pipeline.inference import matrix_rate, speed
from pipeline.inference.loading import adopt
from pipeline.inference.speed import measure_speed


@pytest.fixture(autouse=True)
def _small_products(monkeypatch):
    monkeypatch.setattr(matrix_rate, "_SIDE", {"cpu": 64})


def test_a_line_for_each_size(llama):
    found = measure_speed(adopt(llama), [(1, 30), (4, 5)])
    assert [(size.rows, size.prompt_tokens) for size in found.sizes] == [(1, 30), (4, 5)]
    assert all(size.prefill > 0 and size.decode > 0 for size in found.sizes)
    assert found.model_rate > 0
    assert found.large_rate > 0


def test_a_prompt_leaves_room_for_a_token(llama):
    (size,) = measure_speed(adopt(llama), [(1, 10_000)]).sizes
    assert size.prompt_tokens == 256 - 1
    assert size.decode > 0


def test_a_machine_too_busy_to_tell_is_called_slow_and_not_fast(llama, monkeypatch):
    monkeypatch.setattr(speed, "_seconds", lambda model, rows, tokens, new_tokens: 2.0)
    size = speed._measure(adopt(llama), rows=3, tokens=10)
    assert (size.prefill, size.decode) == (15.0, 12.0)
