"""LoRA weights that change a model: found and checked before anything is loaded, and put into it when it is."""

import json
from pathlib import Path
from typing import Any

from pipeline.errors import ModelError

FILES = CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
#: Kinds of LoRA that act on some tokens and not on others, by the field that turns them on.
_BY_TOKEN = ("alora_invocation_tokens", "arrow_config")


def resolve_adapter(reference: str) -> Path:
    """The directory that holds an adapter's two files. Raises ModelError for what is no LoRA adapter.

    A hub id is looked up in the local cache and then the hub.
    """
    path = Path(reference).expanduser()
    if not path.is_dir():
        path = _hub(reference)
    if not (path / CONFIG).is_file():
        raise ModelError(f"The directory {reference} holds no adapter: it needs {CONFIG} and {WEIGHTS}.")
    _require_lora(reference, path / CONFIG)
    if not (path / WEIGHTS).is_file():
        pickled = "its weights are pickled, which may run any code" if any(path.glob("adapter_model.*")) else ""
        raise ModelError(
            f"The adapter {reference} cannot be loaded: {pickled or 'it has no weights'}. It needs {WEIGHTS}."
        )
    return path


def attach(network: Any, path: Path) -> Any:
    """The transformers model with the adapter merged into its weights, or beside them where they must stay as they are.

    Raises ModelError where the adapter was made for another model.
    """
    from peft import LoraConfig, PeftModel

    try:
        config = LoraConfig.from_pretrained(str(path), inference_mode=True)
        adapted = PeftModel(network, config)
        loaded = adapted.load_adapter(str(path), "default", torch_device=str(network.device))
        # peft merges a bias only into layers that have one.
        is_apart = config.lora_bias or _must_stay_apart(network)
        whole = adapted.base_model.model if is_apart else adapted.merge_and_unload()
    except Exception as error:
        raise _misfit(path, _reason(error)) from error
    if loaded.unexpected_keys:
        raise _misfit(path, f"the model has no place for its weights {loaded.unexpected_keys[0]} and others")
    if loaded.missing_keys:
        raise _misfit(path, f"it has no weights for the model's {loaded.missing_keys[0]} and others")
    return whole


def _hub(reference: str) -> Path:
    if reference.count("/") != 1 or reference.startswith((".", "/", "~")):
        raise ModelError(f"There is no adapter at {reference}: no such directory.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(reference, local_files_only=True))
        # What was downloaded for another purpose, or not to its end, may lack one of them.
        if all((cached / name).is_file() for name in FILES):
            return cached
    except HFValidationError as error:
        raise ModelError(f"{reference!r} is neither a directory nor the id of an adapter on the hub.") from error
    except LocalEntryNotFoundError:
        pass
    try:
        return Path(snapshot_download(reference, allow_patterns=list(FILES)))
    except Exception as error:  # the hub's client lets the errors of its HTTP library through
        raise ModelError(
            f"There is no directory {reference}, and no adapter of that name can be had from the hub: "
            f"{type(error).__name__}."
        ) from error


def _require_lora(reference: str, config: Path) -> None:
    try:
        fields = json.loads(config.read_text(encoding="utf-8"))
        kind = str(fields["peft_type"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"The adapter {reference} cannot be loaded: {config} does not say what it is.") from error
    if kind != "LORA":
        raise ModelError(
            f"The adapter {reference} is of type {kind}; only LoRA works, which changes a model's weights and "
            "nothing else."
        )
    if of_token := [field for field in _BY_TOKEN if fields.get(field)]:
        raise ModelError(
            f"The adapter {reference} is a LoRA with {of_token[0]}, which changes some tokens and not others; "
            "a LoRA that changes all alike works."
        )


def _must_stay_apart(network: Any) -> bool:
    """Quantised weights cannot be added to; tied ones would change the embedding and the head by what was for one."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    ends = (network.get_input_embeddings(), network.get_output_embeddings())
    is_changed = any(isinstance(end, BaseTunerLayer) for end in ends)
    is_tied = getattr(network.config, "tie_word_embeddings", False)
    return (is_tied and is_changed) or getattr(network, "hf_quantizer", None) is not None


def _misfit(path: Path, reason: str) -> ModelError:
    made_for = json.loads((path / CONFIG).read_text(encoding="utf-8")).get("base_model_name_or_path")
    base = f" It was made for {made_for}." if made_for else ""
    return ModelError(f"The adapter {path} does not fit the model: {reason}.{base}")


def _reason(error: Exception) -> str:
    if "size mismatch" in str(error):
        return "its weights have other shapes than the model's"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
