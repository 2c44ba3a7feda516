"""Which families of models can be answered: decoders with attention in every layer."""

from typing import Any

from pipeline.errors import ModelError

_ATTENTION = {"full_attention", "sliding_attention"}


def refuse_unsupported(config: Any) -> None:
    """Raises ModelError that says why, and what would work."""
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ModelError(f"Models of type {kind} have an encoder; a decoder-only model such as Llama or Qwen works.")
    if not getattr(config, "num_attention_heads", None):
        raise ModelError(
            f"Models of type {kind} are recurrent: there is no attention in them whose keys and values rows "
            "could share. A model with attention in every layer, such as Llama or Qwen, works."
        )
    if strange := set(getattr(config, "layer_types", None) or ()) - _ATTENTION:
        raise ModelError(
            f"Models of type {kind} have layers of type {', '.join(sorted(strange))}, whose state cannot be shared "
            "between rows; a model with attention in every layer works."
        )
