"""Which families of models can be answered: decoders with attention in every layer, and encoders, which only embed."""

import json
from pathlib import Path
from typing import Any

from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import cached_file

from pipeline.errors import ModelError

_ATTENTION = {"full_attention", "sliding_attention"}
#: Families whose positions begin behind that of padding.
_LATE_POSITIONS = {"camembert", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod"}
#: What sentence-transformers may do with a model's states and --embed does too.
_POOLING = {"Transformer", "Pooling", "Normalize"}


def is_encoder(config: Any) -> bool:
    """Whether each token sees the whole text, as in BERT."""
    reads = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and hasattr(config, "num_attention_heads")
    return reads and not config.is_encoder_decoder and not getattr(config, "is_decoder", False)


def context_of(config: Any) -> int:
    """Tokens that the model holds, prompt and answer together."""
    late = config.pad_token_id + 1 if config.model_type in _LATE_POSITIONS else 0
    return int(config.max_position_embeddings) - late


def refuse_unsupported(config: Any, *, embeds: bool = False) -> None:
    """Raises ModelError that says why, and what would work; where all that is asked for is to embed, encoders do."""
    kind = config.model_type
    if is_encoder(config):
        if not embeds:
            raise ModelError(
                f"Models of type {kind} read a text and write none: they can --embed. To write, to choose or to score, "
                "take a decoder such as Llama or Qwen."
            )
        return
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


def refuse_layers_behind(source: str, revision: str | None) -> None:
    """Raises ModelError for a model of sentence-transformers that does more than to pool and to normalise."""
    path = cached_file(
        source,
        "modules.json",
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    modules = json.loads(Path(path).read_text(encoding="utf-8")) if path else []
    names = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if others := sorted(set(names) - _POOLING):
        raise ModelError(
            f"The model {source} computes more behind its last layer ({', '.join(others)}, by its modules.json), which "
            "--embed does not, so that its vectors would be others than the model's own. Take another model."
        )
