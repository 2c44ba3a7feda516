"""On a CUDA device the families' answers are the CPU's. Kernels are held to the reference by the suite of back ends."""

import copy
import runpy
from pathlib import Path

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.kernels.flash_cuda import flash_cuda_decode
from pipeline.inference.kernels.reference import reference_decode
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


@pytest.mark.parametrize("of_package", [True, False])
def test_decoding_is_captured_once_and_serves_other_lengths(of_package):
    """As a CUDA graph, which a wait for the device would not let be captured."""
    decode = choose_kernel(torch.device("cuda", 0), torch.bfloat16).decode if of_package else flash_cuda_decode
    q, lanes = torch.randn(3, 4, 1, 64), torch.randn(2, 3, 2, 40, 64)
    q, (k, v) = q.to("cuda", torch.bfloat16), lanes.to("cuda", torch.bfloat16)
    lengths, graph, side = torch.tensor([1, 5, 40], device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        decode(q, k, v, lengths, scale=0.2, longest=40, window=16)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        out, lse = decode(q, k, v, lengths, scale=0.2, longest=40, window=16)
    for now in ([1, 5, 40], [30, 2, 17]):
        lengths.copy_(torch.tensor(now))
        graph.replay()
        whole = (block.float() for block in (q, k, v))
        expected, expected_lse = reference_decode(*whole, lengths, scale=0.2, longest=40, window=16)
        torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)
        torch.testing.assert_close(lse, expected_lse, atol=1e-4, rtol=1e-4)


def test_auto_is_bfloat16_and_flash():
    assert "flash" in choose_kernel(torch.device("cuda", 0), torch.bfloat16).name
