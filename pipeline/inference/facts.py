"""What is known of a model without its weights, kept under `home`, so that torch is imported for new models alone."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pipeline.inference.checkpoint import Checkpoint
from pipeline.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class Facts:
    tokenizer: Path  #: a directory on this machine, with tokenizer.json
    context: int  #: tokens, prompt and answer together


def facts_of(checkpoint: Checkpoint, home: Path, *, trust_remote_code: bool = False, embeds: bool = False) -> Facts:
    """Raises ModelError where the model is of a kind that cannot be answered, TryAgain where nothing can be kept."""
    software = version("pipeline"), version("transformers")  # which models can be answered, and how long their rows
    asked = checkpoint.digest, *software, f"{trust_remote_code=} {embeds=}"
    note = home / "models" / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]}.json"
    tokenizer, context = checkpoint.kept_tokenizer(home), _recall(note)
    if tokenizer is not None and context is not None:
        return Facts(tokenizer, context)
    # To import it takes longer than all else that a submission does.
    from pipeline.inference.loading import read_context, save_tokenizer

    found = Facts(
        save_tokenizer(checkpoint, home, trust_remote_code=trust_remote_code),
        read_context(checkpoint, trust_remote_code=trust_remote_code, embeds=embeds),
    )
    with suppress(OSError):
        write_whole(note, json.dumps({"context": found.context}))
    return found


def _recall(note: Path) -> int | None:
    """None also where it is damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(note.read_text(encoding="utf-8"))["context"])
    return None
