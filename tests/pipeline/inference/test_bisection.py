from functools import partial

import pytest
import torch

from pipeline.errors import DeviceLost
from pipeline.inference.bisection import run_bisecting
from pipeline.inference.completions import Finished
from pipeline.rows import Batch, BatchTiming, Completion, Generate, Prompt, Status


class Fragile:
    """An engine that breaks on any batch that holds row 5 or row 6."""

    def __init__(self):
        self.sizes = []

    def run(self, batch, task):
        self.sizes.append(len(batch.prompts))
        if {5, 6} & {prompt.row_id for prompt in batch.prompts}:
            raise RuntimeError("no kernel image\nand a long story")
        done = [
            Completion(prompt.row_id, prompt.key, Status.OK, output="yes", output_tokens=2) for prompt in batch.prompts
        ]
        rows = tuple(partial(lambda completion: completion, completion) for completion in done)
        return Finished(rows, BatchTiming(prefill_s=1.0, computed_tokens=len(done)))


def test_only_the_rows_at_fault_fail():
    engine = Fragile()
    prompts = tuple(Prompt(row_id, str(row_id), (1, 2)) for row_id in range(16))
    completions, timing = run_bisecting(engine, Batch("j", 0, 1, 1, (9,) * 10, prompts), Generate(1)).written()
    failed = [completion for completion in completions if completion.status == Status.ERROR]
    assert sorted(completion.row_id for completion in completions) == list(range(16))
    assert engine.sizes == [16, 8, 4, 4, 2, 1, 1, 2, 1, 1, 8]
    assert [completion.row_id for completion in failed] == [5, 6]
    assert failed[0].error == "The engine failed on this row, also alone: RuntimeError: no kernel image"
    assert (failed[0].error_type, failed[0].prompt_tokens) == ("engine", 12)
    assert (timing.computed_tokens, timing.output_tokens) == (14, 28)


def test_a_healthy_batch_is_answered_in_one_go():
    engine = Fragile()
    batch = Batch("j", 0, 1, 1, (), (Prompt(0, "a", (1,)),))
    completions, timing = run_bisecting(engine, batch, Generate(1)).written()
    assert engine.sizes == [1]
    assert [completion.output for completion in completions] == ["yes"]
    assert (timing.prefill_s, timing.computed_tokens, timing.output_tokens) == (1.0, 1, 2)


def test_a_device_that_is_lost_is_not_asked_again():
    """No batch on it could succeed: each of its rows would be an error that is not its own."""
    sizes = []

    class Lost:
        def run(self, batch, task):
            sizes.append(len(batch.prompts))
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    prompts = tuple(Prompt(row_id, str(row_id), (1, 2)) for row_id in range(4))
    with pytest.raises(DeviceLost, match=r"The device failed, .*: CUDA error: an illegal memory access"):
        run_bisecting(Lost(), Batch("j", 0, 1, 1, (), prompts), Generate(1))
    assert sizes == [4]
