import pytest

from pipeline.inference.calibration import EXPERIMENTS, Experiment, fit_costs, measure_costs
from pipeline.inference.capacity import FORWARD_TOKENS
from pipeline.inference.loading import adopt

TRUE = (0.002, 0.0001, 0.03, 0.0002)


def seconds(terms, costs=TRUE):
    return sum(term * cost for term, cost in zip(terms, costs, strict=True))


def found(costs):
    return costs.token_s, costs.key_s, costs.level_s, costs.reader_s


def test_the_terms_of_an_experiment():
    """14 times 16 tokens are not computed a second time, nor their keys read at 3 steps, for a level in 4 forwards."""
    assert Experiment(rows=16, shared=16, own=4, steps=3).terms == (14 * 16, 14 * 16 * 3, -4, -16 * (4 + 3))


def test_costs_that_explain_all_experiments_are_found():
    observed = [(experiment.terms, seconds(experiment.terms), 1.0) for experiment in EXPERIMENTS]
    assert found(fit_costs(observed)) == pytest.approx(TRUE)


def test_a_few_percent_of_noise_change_the_costs_by_little():
    noise = (1.02, 0.97, 1.03, 0.98, 1.01, 0.99)
    observed = [(e.terms, seconds(e.terms) * off, 1.0) for e, off in zip(EXPERIMENTS, noise, strict=True)]
    assert found(fit_costs(observed))[0] == pytest.approx(TRUE[0], rel=0.1)
    assert found(fit_costs(observed))[2] == pytest.approx(TRUE[2], rel=0.3)


def test_no_cost_is_below_zero():
    odd = (TRUE[0], -0.0001, TRUE[2], -0.0001)
    costs = fit_costs([(experiment.terms, seconds(experiment.terms, odd), 1.0) for experiment in EXPERIMENTS])
    assert min(found(costs)) == 0
    assert costs.token_s > 0


def test_each_experiment_is_one_forward():
    assert all(e.rows * (e.shared + e.own) <= FORWARD_TOKENS for e in EXPERIMENTS)
    assert all(e.rows % 2 == 0 for e in EXPERIMENTS)


def test_costs_are_measured_on_a_model(llama):
    small = (
        Experiment(rows=4, shared=40, own=2, steps=0),
        Experiment(rows=4, shared=4, own=40, steps=0),
        Experiment(rows=2, shared=4, own=2, steps=2),
        Experiment(rows=8, shared=40, own=2, steps=4),
    )
    costs = found(measure_costs(adopt(llama), small))
    assert min(costs) >= 0
    assert max(costs) > 0
