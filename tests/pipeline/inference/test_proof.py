"""A model whose attention is not what we compute is found out before its first batch, by its logits."""

from dataclasses import replace

import pytest
import torch

from pipeline.errors import ModelError
from pipeline.inference.loading import adopt
from pipeline.inference.proof import prove


@pytest.fixture
def model(llama):
    return adopt(llama)


def sharper(kernel):
    """The mistake of a kernel that scales scores in another way."""
    return lambda *tensors, scale, **options: kernel(*tensors, scale=2 * scale, **options)


def test_a_model_that_is_computed_as_it_is_passes(model):
    prove(model)


@pytest.mark.parametrize("part", ["kernel", "decode_kernel"])
def test_a_wrong_kernel_is_found_out(model, part):
    with pytest.raises(ModelError, match=r"^Models of type llama .* differ from the plain model's by \d"):
        prove(replace(model, **{part: sharper(getattr(model, part))}))


def test_a_decode_kernel_that_sees_behind_a_row_s_end_is_found_out(model):
    def sees_all(q, k, v, lengths, **options):
        return model.decode_kernel(q, k, v, torch.full_like(lengths, k.shape[2]), **options | {"longest": k.shape[2]})

    with pytest.raises(ModelError, match="packed logits differ"):
        prove(replace(model, decode_kernel=sees_all))


def test_logits_that_are_no_numbers_prove_nothing(llama):
    with torch.no_grad():
        llama.model.norm.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="differ from the plain model's by nan%"):
        adopt(llama)
