"""Before a model's first batch: its packed logits against its plain ones, so that a family unforeseen is found out."""

import torch

from pipeline.errors import ModelError
from pipeline.inference import attention
from pipeline.inference.forward import prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.stem import Node, Stem

#: Largest difference, as a share of the largest logit.
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}
_TOKENS = 5


@torch.inference_mode()
def prove(model: LanguageModel) -> None:
    """Two short rows after a shared prefix, packed, against each alone through transformers' own attention.

    Raises ModelError where they differ.
    """
    numbers = torch.Generator().manual_seed(0)
    prefix, *rows = torch.randint(model.vocab_size, (3, _TOKENS), generator=numbers).tolist()
    kept = Lanes(model.shape, 1, _TOKENS)
    prefill(model, Stem([()], model.device), [0], [prefix], kept)
    ours = prefill(model, Stem([(Node(0, kept),)] * 2, model.device), [0, 1], rows, None)
    model.network.set_attn_implementation("eager")
    whole = torch.tensor([[*prefix, *row] for row in rows], device=model.device)
    plain = model.network(input_ids=whole, use_cache=False, logits_to_keep=1).logits[:, 0].float()
    model.network.set_attn_implementation(attention.NAME)
    difference = ((ours - plain).abs().max() / plain.abs().max()).item()
    if not difference <= _TOLERANCE[model.shape.dtype]:
        raise ModelError(
            f"Models of type {model.network.config.model_type} cannot be answered exactly with shared prefixes: "
            f"packed logits differ from the plain model's by {difference:.1%}. Llama, Qwen and GPT-2 models work."
        )
