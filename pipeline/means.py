"""What a job's rows are answered with: its template, its tokenizer and its model, and what sharing costs with it."""

import math
from dataclasses import dataclass, replace

from pipeline.asking import check_questions
from pipeline.calibration import read_costs
from pipeline.constraints import Constraints
from pipeline.costs import Costs
from pipeline.inference.checkpoint import Checkpoint
from pipeline.inference.determinism import deterministic
from pipeline.inference.loading import load_model, save_tokenizer
from pipeline.inference.model import LanguageModel
from pipeline.prompts.conversation import Shape
from pipeline.prompts.shapes import shape_of
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings
from pipeline.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Means:
    """All that can be had before the first row is read."""

    shape: Shape
    vocabulary: Vocabulary
    model: LanguageModel
    costs: Costs
    constraints: Constraints


def load_means(spec: JobSpec, checkpoint: Checkpoint, settings: Settings) -> Means:
    """Raises SpecError or ModelError, cheapest checks first."""
    shape = shape_of(spec)
    trust = spec.trust_remote_code
    vocabulary = Vocabulary(save_tokenizer(checkpoint, settings.home, trust_remote_code=trust))
    check_questions(spec, vocabulary)
    constraints = Constraints(vocabulary)
    for asked in spec.asked:
        constraints.require(asked.constraint)
    dtype = "float32" if spec.deterministic and spec.dtype == "auto" else spec.dtype
    model = load_model(checkpoint, settings.device, dtype, trust_remote_code=trust, embeds=spec.embeds)
    costs = read_costs(settings.home, model)
    if spec.deterministic:
        return Means(shape, vocabulary, deterministic(model), replace(costs, level_s=math.inf), constraints)
    return Means(shape, vocabulary, model, costs, constraints)
