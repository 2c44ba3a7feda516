"""On a CUDA device the families' answers are the CPU's. Kernels are held to the reference by the suite of back ends."""

import copy
import runpy
from pathlib import Path

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.kernels.selection import choose_kernel
from pipeline.inference.loading import adopt, load_model
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Batch, Generate, Prompt

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
FAMILIES = runpy.run_path(str(Path(__file__).parents[1] / "pipeline/inference/conftest.py"))
LENGTHS = [1, 7, 33, 2, 60, 7]


@pytest.fixture(scope="module", autouse=True)
def whole_products():
    """fp32 products in fp32, which TF32 would round."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def batch(prefix: int = 40) -> Batch:
    numbers = torch.Generator().manual_seed(1)
    ids = lambda count: tuple(torch.randint(6, FAMILIES["VOCAB"], (count,), generator=numbers).tolist())  # noqa: E731
    head = ids(prefix)
    return Batch("job", 0, 1, 1, head, tuple(Prompt(row, str(row), ids(n)) for row, n in enumerate(LENGTHS)))


def outputs(model):
    engine = Engine(model, PrefixStore(1 << 28), lambda ids: " ".join(map(str, ids)))
    return {answer.row_id: answer.output for answer in engine.answer(batch(), Generate(24))[0]}


@pytest.mark.parametrize("family", sorted(FAMILIES["CONFIGS"]))
def test_greedy_tokens_are_those_of_the_cpu(family):
    network = FAMILIES["network"](FAMILIES["CONFIGS"][family]())
    on_cuda = adopt(copy.deepcopy(network).to("cuda"))
    assert on_cuda.kernel_name == "plain reference"
    assert outputs(on_cuda) == outputs(adopt(network))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_real_model_is_proven_and_answers_in_half_precision(small_checkpoint, dtype):
    model = load_model(small_checkpoint, "cuda", dtype)
    assert "flash" in model.kernel_name
    assert model.shape.dtype is getattr(torch, dtype)
    assert all(outputs(model).values())


def test_auto_is_bfloat16_and_flash():
    assert "flash" in choose_kernel(torch.device("cuda", 0), torch.bfloat16).name
