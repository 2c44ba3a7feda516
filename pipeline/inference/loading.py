"""The door to transformers: weights and tokenizers as they are, with packed attention, proven before first use."""

import contextlib
import io
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from pipeline.errors import ModelError, TryAgain
from pipeline.inference import attention
from pipeline.inference.adapter import attach
from pipeline.inference.allocator import keep_freed_memory
from pipeline.inference.capacity import is_device_lost, is_out_of_memory
from pipeline.inference.checkpoint import Checkpoint, identify
from pipeline.inference.device import choose_device, choose_dtype
from pipeline.inference.families import (
    TEXT_PART_WEIGHTS,
    context_of,
    is_encoder,
    refuse_layers_behind,
    refuse_unsupported,
    text_part,
)
from pipeline.inference.gguf_file import quick_reading
from pipeline.inference.long_rope import rotate_by_row
from pipeline.inference.model import LanguageModel, describe
from pipeline.inference.prelaid import lay_out
from pipeline.inference.proof import prove, prove_padding

#: Weights that nothing reads where texts are embedded.
_UNREAD = ("lm_head.", "embed_out.", "pooler.")


def save_tokenizer(checkpoint: Checkpoint, home: Path, *, trust_remote_code: bool = False) -> Path:
    """The model's tokenizer as a directory with tokenizer.json, made once for each content under `home`.

    Raises ModelError where it cannot be loaded, TryAgain where it cannot be written.
    """
    if (kept := checkpoint.kept_tokenizer(home)) is not None:
        return kept
    options = {"trust_remote_code": trust_remote_code, **_which(checkpoint)}
    try:
        with _reading(checkpoint):
            tokenizer = AutoTokenizer.from_pretrained(checkpoint.source, **options)
    except Exception as error:
        raise ModelError(f"The tokenizer of {checkpoint.source} cannot be loaded: {_first_line(error)}") from error
    _save_whole(tokenizer, directory := checkpoint.tokenizer_place(home))
    return directory


def load_model(
    checkpoint: Checkpoint, device: str, dtype: str = "auto", *, trust_remote_code: bool = False, embeds: bool = False
) -> LanguageModel:
    """Raises ModelError where the model cannot be loaded, or its answers would not be exactly its own.

    With `embeds` it may be an encoder, and it may lack what only writing needs.
    """
    options = {"trust_remote_code": trust_remote_code, **_which(checkpoint)}
    target = choose_device(device)
    if target.type == "cpu":
        keep_freed_memory()
    with _faults_told(checkpoint), _reading(checkpoint):
        config = _supported(checkpoint, embeds, options)
        network, told = (AutoModel if is_encoder(config) else AutoModelForCausalLM).from_pretrained(
            checkpoint.source,
            config=config,
            dtype=choose_dtype(dtype, target, config.dtype),
            # Quantised weights are not to be moved once they are loaded, so that they go where they stay.
            device_map={"": target},
            attn_implementation=None if is_encoder(config) else attention.registered(),
            output_loading_info=True,
            key_mapping=None if is_encoder(config) else TEXT_PART_WEIGHTS,
            **options,
        )
        _require_whole(checkpoint, told["missing_keys"], unread=_UNREAD if embeds else ())
    with _strangeness_told(config.model_type):
        model = (_adopt_encoder if is_encoder(config) else _adopt_decoder)(checkpoint, network.eval())
    return replace(model, identity=identify(checkpoint))


def read_context(checkpoint: Checkpoint, *, trust_remote_code: bool = False, embeds: bool = False) -> int:
    """Tokens that the model holds, prompt and answer together, by its configuration: no weights are loaded.

    Raises ModelError where the model is of a kind that cannot be answered.
    """
    with _faults_told(checkpoint), _reading(checkpoint):
        options = {"trust_remote_code": trust_remote_code, **_which(checkpoint)}
        return context_of(_supported(checkpoint, embeds, options))


def adopt(network: Any) -> LanguageModel:
    """A transformers model in memory, its attention set to ours and proven against the plain one."""
    refuse_unsupported(network.config)
    network.set_attn_implementation(attention.registered())
    model = describe(network)
    if model.short_context < model.context:
        rotate_by_row(network, model.short_context, model.context)
    prove(model)
    return model


def _supported(checkpoint: Checkpoint, embeds: bool, options: dict[str, Any]) -> Any:
    """The configuration of what is answered of the model."""
    config = text_part(AutoConfig.from_pretrained(checkpoint.source, **options))
    refuse_unsupported(config, embeds=embeds)
    if embeds:
        refuse_layers_behind(checkpoint.source, checkpoint.revision)
    return config


def _adopt_decoder(checkpoint: Checkpoint, network: Any) -> LanguageModel:
    model = adopt(network)
    if checkpoint.adapter is not None:
        # Some quantised weights unfold in a first forward, which the proof of the model alone has been.
        with _reading(checkpoint):
            network = attach(network, checkpoint.adapter)
        model = adopt(network.eval())
    lay_out(model.network)
    prove(model)
    return model


def _adopt_encoder(checkpoint: Checkpoint, network: Any) -> LanguageModel:
    if checkpoint.adapter is not None:
        raise ModelError(f"--adapter is for models that write, and {checkpoint.source} is an encoder; leave it out.")
    lay_out(network)
    model = describe(network, causal=False)
    prove_padding(model)
    return model


@contextlib.contextmanager
def _faults_told(checkpoint: Checkpoint) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except KeyError as error:
        if error.args != (attention.registered(),):
            raise ModelError(f"The model {checkpoint.source} cannot be loaded: {_first_line(error)}") from error
        raise ModelError(
            f"The model {checkpoint.source} cannot be answered: its family has attention of its own, and no place for "
            "another. Llama, Qwen and GPT-2 models work."
        ) from error
    except ImportError as error:
        raise ModelError(f"The model {checkpoint.source} cannot be loaded: {_wanting(error)}") from error
    except Exception as error:
        raise ModelError(f"The model {checkpoint.source} cannot be loaded: {_first_line(error)}") from error


@contextlib.contextmanager
def _strangeness_told(kind: str) -> Iterator[None]:
    """A family may call attention in a way of its own, which shows where it is first called."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        if is_out_of_memory(error) or is_device_lost(error):
            raise
        raise ModelError(
            f"Models of type {kind} cannot be answered: they compute attention in a way that rows cannot share "
            f"({type(error).__name__}: {_first_line(error)}). Llama, Qwen and GPT-2 models work."
        ) from error


def _require_whole(checkpoint: Checkpoint, keys: Iterable[str], unread: tuple[str, ...]) -> None:
    """transformers makes up what is missing, for whoever wants to train it."""
    if missing := sorted(key for key in keys if not key.startswith(unread)):
        others = f" and {len(missing) - 1} other{'s' if len(missing) > 2 else ''}" if len(missing) > 1 else ""
        raise ModelError(f"The model {checkpoint.source} is incomplete: it has no weights for {missing[0]}{others}.")


def _save_whole(tokenizer: Any, directory: Path) -> None:
    """All of it or nothing, whatever happens on the way; the first of several processes wins."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent) as unfinished:
            copy = Path(unfinished, directory.name)
            tokenizer.save_pretrained(str(copy))
            copy.replace(directory)
    except Exception as error:
        if not directory.is_dir():
            raise TryAgain(
                f"The model's tokenizer cannot be kept in {directory}: {_first_line(error)}. "
                "Look whether the disk is full, and try again."
            ) from error


def _which(checkpoint: Checkpoint) -> dict[str, Any]:
    named = {"gguf_file": checkpoint.gguf_file, "revision": checkpoint.revision}
    return {option: value for option, value in named.items() if value is not None}


def _wanting(error: ImportError) -> str:
    """Of a quantiser most often, which transformers names in a sentence of its own or not at all."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it needs the package {error.name}; `pip install {error.name}` brings it."
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _reading(checkpoint: Checkpoint) -> Iterator[None]:
    with _silence(), contextlib.nullcontext() if checkpoint.gguf_file is None else quick_reading():
        yield


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps loading bars and advice to programmers off a person's terminal; errors still come as exceptions."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
