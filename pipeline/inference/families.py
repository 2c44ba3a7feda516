"""Which families of models can be answered: decoders with attention in every layer, and encoders, which only embed."""

import json
from pathlib import Path
from typing import Any

from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import cached_file

from pipeline.errors import ModelError

_ATTENTION = {"full_attention", "sliding_attention"}
#: Families that read images too, and whose text part is a whole decoder, the same as where there is no image.
_WITH_TEXT_PART = {"gemma3", "mistral3"}
#: What a text part's weights are called among the others, old names and new ones, and what it calls them itself.
TEXT_PART_WEIGHTS = {
    r"^language_model\.model\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
    r"^model\.language_model\.": "model.",
}
#: What is written down for the whole model and holds for its text part.
_OF_THE_WHOLE = ("dtype", "eos_token_id", "quantization_config", "tie_word_embeddings")
#: Families whose positions begin behind that of padding.
_LATE_POSITIONS = {"camembert", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod"}
#: Families that read a row anew, by the factors for long rows, once an answer outgrows those for short ones.
_READ_ANEW = {"phi3", "phimoe"}
#: What sentence-transformers may do with a model's states and --embed does too.
_POOLING = {"Transformer", "Pooling", "Normalize"}


def is_encoder(config: Any) -> bool:
    """Whether each token sees the whole text, as in BERT."""
    reads = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and hasattr(config, "num_attention_heads")
    return reads and not config.is_encoder_decoder and not getattr(config, "is_decoder", False)


def text_part(config: Any) -> Any:
    """What of a model is answered: of one that reads images too its text part, of any other all."""
    if config.model_type not in _WITH_TEXT_PART:
        return config
    part = config.get_text_config()
    for name in _OF_THE_WHOLE:
        if (value := getattr(config, name, None)) is not None:
            setattr(part, name, value)
    return part


def context_of(config: Any) -> int:
    """Tokens that the model holds, prompt and answer together.

    Of LongRoPE, those that the factors for short rows serve, where transformers does not read a row anew that outgrows
    them, and computes it half by the ones and half by the others. Raises ModelError where there is no limit.
    """
    if (getattr(config, "max_position_embeddings", None) or 0) <= 0:  # XLNet, which knows no limit, says -1
        raise ModelError(
            f"Models of type {config.model_type} do not say how many tokens they hold: there is no "
            "max_position_embeddings in their configuration. Models such as Llama or Qwen work."
        )
    late = config.pad_token_id + 1 if config.model_type in _LATE_POSITIONS else 0
    whole = config.max_position_embeddings - late
    return int(whole if _reads_anew(config) else min([whole, *_short_contexts(config)]))


def short_context_of(config: Any) -> int:
    """Tokens of a row up to which it is read as any other: all that the model holds, and fewer of LongRoPE."""
    return int(min([context_of(config), *_short_contexts(config)]))


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
    if getattr(config, "is_heterogeneous", False):
        raise ModelError(
            f"The layers of this model of type {kind} differ in shape (per_layer_config), and what rows share has one "
            "shape in all layers. A model whose layers are alike, such as Llama, Qwen or Gemma 3, works."
        )
    text = config if getattr(config, "num_attention_heads", None) else config.get_text_config()
    if strange := set(getattr(text, "layer_types", None) or ()) - _ATTENTION:
        raise ModelError(
            f"Models of type {kind} have layers of type {', '.join(sorted(strange))}, whose state cannot be shared "
            "between rows; a model with attention in every layer works."
        )
    if text is not config:
        raise ModelError(
            f"Models of type {kind} read more than text. Of those, the text part of "
            f"{' and '.join(sorted(_WITH_TEXT_PART))} models works; and so does a model that reads text alone, such as "
            "Llama or Qwen."
        )
    if not getattr(config, "num_attention_heads", None):
        raise ModelError(
            f"Models of type {kind} name no attention heads. Recurrent models have none: there are no keys and values "
            "in them that rows could share. A model with attention in every layer, such as Llama or Qwen, works."
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


def _reads_anew(config: Any) -> bool:
    """By transformers, that asks the configuration itself where, and not what it says of rotation."""
    border = getattr(config, "original_max_position_embeddings", None)
    return config.model_type in _READ_ANEW and all(border == short for short in _short_contexts(config))


def _short_contexts(config: Any) -> list[int]:
    return [rope["original_max_position_embeddings"] for rope in _ropes(config) if rope["rope_type"] == "longrope"]


def _ropes(config: Any) -> list[dict[str, Any]]:
    """One for all layers, or one for each type of layer; none where positions are learned."""
    found = getattr(config, "rope_parameters", None) or {}
    return [rope for rope in (found, *found.values()) if isinstance(rope, dict) and "rope_type" in rope]
