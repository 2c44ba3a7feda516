"""One table in other orders, other batches and other shards: with --deterministic the same answers, digit by digit."""

import random

import pytest

TEXTS = [" ".join(["tea", "milk", "and", "a", "longer", "word"][: 1 + n % 6] * (1 + n // 6)) for n in range(24)]
ASKED = ("--max-tokens", "8", "--logprobs", "1", "--key", "id", "--deterministic")


@pytest.fixture
def answered(home, submit, table):
    def one(name, order, **variables):
        home.variables |= {f"PIPELINE_{variable}": str(value) for variable, value in variables.items()}
        path = table(id=[f"k{n}" for n in order], text=[TEXTS[n] for n in order])
        assert submit(path, *ASKED, "--name", name).exit_code == 0
        return {result.key: (result.output, result.logprobs) for result in home.results(name)}

    return one


def test_answers_do_not_depend_on_order_batch_or_shard(answered):
    order = list(range(24))
    whole = answered("whole", order, BATCH_ROWS=64)
    assert len(whole) == 24
    assert answered("ones", order, BATCH_ROWS=1) == whole
    random.Random(1).shuffle(order)
    assert answered("shuffled", order, BATCH_ROWS=7, SHARD_ROWS=10) == whole


def test_where_it_cannot_be_kept_it_is_refused(submit, table):
    refused = submit(table(text=TEXTS), "--deterministic", "--dtype", "bfloat16")
    assert refused.exit_code == 1
    assert "--deterministic is kept on a CPU in float32, and this is cpu in bfloat16" in refused.stderr
