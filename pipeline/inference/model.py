"""The door to transformers: a causal language model as it is, with packed attention, proven equal before first use."""

import contextlib
import io
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from pipeline.errors import ModelError, TryAgain
from pipeline.inference import attention
from pipeline.inference.attention import Packed, Prefill
from pipeline.inference.checkpoint import Checkpoint
from pipeline.inference.device import choose_device
from pipeline.inference.kernels import Kernel, choose_kernel
from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.padding import Padding

#: Largest difference between our logits and the plain model's, as a share of the largest logit.
_PROOF_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Weights, and the facts about them that batches need."""

    network: Any
    shape: LaneShape
    kernel: Kernel
    kernel_name: str
    context: int  #: tokens, prompt and answer together, for which attention is exact
    vocab_size: int
    stop_ids: frozenset[int]

    @property
    def device(self) -> torch.device:
        return self.shape.device

    def logits(self, token_ids: list[int], positions: list[int], keep: list[int], packed: Packed) -> Tensor:
        """fp32 logits [len(keep), vocab] after those tokens of the forward that `keep` counts."""
        output = self.network(
            input_ids=torch.tensor([token_ids], device=self.device),
            position_ids=torch.tensor([positions], device=self.device),
            logits_to_keep=torch.tensor(keep, device=self.device),
            use_cache=False,
            packed=packed,
        )
        logits: Tensor = output.logits[0].float()
        return logits


def save_tokenizer(checkpoint: Checkpoint, home: Path, *, trust_remote_code: bool = False) -> Path:
    """The model's tokenizer as a directory with tokenizer.json, made once for each model under `home`.

    Raises ModelError where it cannot be loaded, TryAgain where it cannot be written.
    """
    directory = home / "tokenizers" / checkpoint.digest.replace("/", "--")
    if (directory / "tokenizer_config.json").is_file():
        return directory
    options = {"trust_remote_code": trust_remote_code, **_which(checkpoint)}
    try:
        with _silence():
            tokenizer = AutoTokenizer.from_pretrained(checkpoint.source, **options)
    except Exception as error:
        raise ModelError(f"The tokenizer of {checkpoint.source} cannot be loaded: {_first_line(error)}") from error
    _save_whole(tokenizer, directory)
    return directory


def load_model(checkpoint: Checkpoint, device: str, *, trust_remote_code: bool = False) -> LanguageModel:
    """Raises ModelError where the model cannot be loaded, or its answers would not be exactly its own."""
    options = {"trust_remote_code": trust_remote_code, **_which(checkpoint)}
    target = choose_device(device)
    dtype = torch.float32 if target.type == "cpu" else torch.bfloat16
    try:
        with _silence():
            _refuse_unsupported(AutoConfig.from_pretrained(checkpoint.source, **options))
            network = AutoModelForCausalLM.from_pretrained(
                checkpoint.source, dtype=dtype, attn_implementation=attention.NAME, **options
            )
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"The model {checkpoint.source} cannot be loaded: {_first_line(error)}") from error
    return adopt(network.to(target).eval())


def adopt(network: Any) -> LanguageModel:
    """A transformers model in memory, its attention set to ours and proven against the plain one."""
    _refuse_unsupported(network.config)
    network.set_attn_implementation(attention.NAME)
    config, embedding = network.config, network.get_input_embeddings().weight
    heads = config.num_attention_heads
    name, kernel = choose_kernel(embedding.device)
    model = LanguageModel(
        network=network,
        shape=LaneShape(
            layers=config.num_hidden_layers,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=embedding.dtype,
            device=embedding.device,
        ),
        kernel=kernel,
        kernel_name=name,
        context=_context(config),
        vocab_size=embedding.shape[0],
        stop_ids=_stop_ids(network),
    )
    _prove(model)
    return model


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


def _refuse_unsupported(config: Any) -> None:
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ModelError(f"Models of type {kind} have an encoder; a decoder-only model such as Llama or Qwen works.")
    if not getattr(config, "num_attention_heads", None):
        raise ModelError(
            f"Models of type {kind} are recurrent: there is no attention in them whose keys and values rows "
            "could share. A model with attention in every layer, such as Llama or Qwen, works."
        )
    layers = set(getattr(config, "layer_types", None) or ())
    if strange := layers - {"full_attention", "sliding_attention"}:
        raise ModelError(
            f"Models of type {kind} have layers of type {', '.join(sorted(strange))}, whose state cannot be shared "
            "between rows; a model with attention in every layer works."
        )
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise ModelError(f"Models of type {kind} cap their attention scores, which is not supported yet.")


def _context(config: Any) -> int:
    """Where layers see a sliding window only, attention over all tokens is exact as long as all fit the window."""
    window = getattr(config, "sliding_window", None)
    slides = "sliding_attention" in (getattr(config, "layer_types", None) or ["sliding_attention"])
    whole = int(config.max_position_embeddings)
    return min(whole, int(window)) if window and slides else whole


def _stop_ids(network: Any) -> frozenset[int]:
    configured = network.generation_config.eos_token_id
    if configured is None:
        configured = network.config.eos_token_id
    return frozenset() if configured is None else frozenset([configured] if isinstance(configured, int) else configured)


@torch.inference_mode()
def _prove(model: LanguageModel) -> None:
    """Two short rows after a shared prefix, packed, against each alone through transformers' own attention."""
    numbers = torch.Generator().manual_seed(0)
    prefix, *rows = torch.randint(model.vocab_size, (3, 5), generator=numbers).tolist()
    kept = Lanes(model.shape, 1, len(prefix))
    first = Prefill(model.kernel, Padding([len(prefix)], model.device), None, kept)
    model.logits(prefix, list(range(5)), [4], first)
    both = Prefill(model.kernel, Padding([5, 5], model.device), kept, None)
    ours = model.logits([*rows[0], *rows[1]], [*range(5, 10)] * 2, [4, 9], both)
    model.network.set_attn_implementation("eager")
    whole = torch.tensor([[*prefix, *row] for row in rows], device=model.device)
    plain = model.network(input_ids=whole, use_cache=False, logits_to_keep=1).logits[:, 0].float()
    model.network.set_attn_implementation(attention.NAME)
    difference = ((ours - plain).abs().max() / plain.abs().max()).item()
    if not difference <= _PROOF_TOLERANCE[model.shape.dtype]:
        raise ModelError(
            f"Models of type {model.network.config.model_type} cannot be answered exactly with shared prefixes: "
            f"packed logits differ from the plain model's by {difference:.1%}. Llama, Qwen and GPT-2 models work."
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps loading bars and advice to programmers off a person's terminal; errors still come as exceptions."""
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
        yield
