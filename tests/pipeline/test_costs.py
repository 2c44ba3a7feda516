import pytest

from pipeline.costs import Costs, usual_costs

COSTS = Costs(token_s=1.0, key_s=0.01, level_s=5.0, reader_s=0.1)


def test_a_node_saves_its_tokens_for_every_row_but_the_first_and_costs_each_token_below_it():
    assert COSTS.saved(tokens=20, rows=5, below=40, steps=0) == pytest.approx(20 * 4 - 40 * 0.1)


def test_while_answers_are_written_it_saves_keys_and_costs_readers():
    prefill = COSTS.saved(tokens=20, rows=5, below=40, steps=0)
    assert COSTS.saved(tokens=20, rows=5, below=40, steps=10) == pytest.approx(prefill + 10 * (20 * 4 * 0.01 - 5 * 0.1))


def test_a_level_is_dearer_on_a_gpu_in_tokens():
    on_cpu, on_gpu = usual_costs("cpu"), usual_costs("cuda")
    assert on_gpu.level_s / on_gpu.token_s > on_cpu.level_s / on_cpu.token_s > 1
