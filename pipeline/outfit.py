"""What a fleet's workers need of a job's model before any of them loads it: its tokenizer and its context."""

from dataclasses import dataclass

from pipeline.asking import check_questions
from pipeline.constraints import Constraints
from pipeline.inference.checkpoint import Checkpoint
from pipeline.inference.facts import Facts, facts_of
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings
from pipeline.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Outfit:
    facts: Facts
    vocabulary: Vocabulary  #: what is in the tokenizer


def load_outfit(spec: JobSpec, checkpoint: Checkpoint, settings: Settings) -> Outfit:
    """Raises SpecError or ModelError for whatever can be known to fail without the weights."""
    facts = facts_of(checkpoint, settings.home, trust_remote_code=spec.trust_remote_code, embeds=spec.embeds)
    vocabulary = Vocabulary(facts.tokenizer)
    check_questions(spec, vocabulary)
    constraints = Constraints(vocabulary)
    for asked in spec.asked:
        constraints.require(asked.constraint)
    return Outfit(facts, vocabulary)
