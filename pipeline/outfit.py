"""What a fleet's workers need of a job's model before any of them loads it: its tokenizer and its context."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.asking import check_questions
from pipeline.constraints import Constraints
from pipeline.inference.checkpoint import Checkpoint
from pipeline.inference.loading import read_context, save_tokenizer
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings
from pipeline.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Outfit:
    tokenizer: Path  #: a directory on this machine
    vocabulary: Vocabulary  #: what is in it
    context: int  #: tokens, prompt and answer together


def load_outfit(spec: JobSpec, checkpoint: Checkpoint, settings: Settings) -> Outfit:
    """Raises SpecError or ModelError for whatever can be known to fail without the weights."""
    trust = spec.trust_remote_code
    directory = save_tokenizer(checkpoint, settings.home, trust_remote_code=trust)
    vocabulary = Vocabulary(directory)
    check_questions(spec, vocabulary)
    constraints = Constraints(vocabulary)
    for asked in spec.asked:
        constraints.require(asked.constraint)
    return Outfit(directory, vocabulary, read_context(checkpoint, trust_remote_code=trust, embeds=spec.embeds))
