"""What a job's rows are answered with: its template, its model, and the encoder and the task made from them."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from pipeline.calibration import read_costs
from pipeline.costs import Costs
from pipeline.errors import RowError
from pipeline.inference.checkpoint import Checkpoint
from pipeline.inference.determinism import deterministic
from pipeline.inference.loading import load_model, save_tokenizer
from pipeline.inference.model import LanguageModel
from pipeline.prompts.limits import check_length
from pipeline.prompts.template import Template
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Choose, Completion, Generate, Prompt, Row, Sampling, Status, Task
from pipeline.settings import Settings
from pipeline.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Means:
    """All that can be had before the first row is read."""

    template: Template
    vocabulary: Vocabulary
    model: LanguageModel
    costs: Costs


def load_means(spec: JobSpec, checkpoint: Checkpoint, settings: Settings) -> Means:
    """Raises SpecError or ModelError, cheapest checks first."""
    template = Template.parse(spec.prompt)
    trust = spec.trust_remote_code
    vocabulary = Vocabulary(save_tokenizer(checkpoint, settings.home, trust_remote_code=trust))
    make_task(spec, make_encoder(spec, template, vocabulary, time.time(), sample=()))
    dtype = "float32" if spec.deterministic and spec.dtype == "auto" else spec.dtype
    model = load_model(checkpoint, settings.device, dtype, trust_remote_code=trust)
    costs = read_costs(settings.home, model)
    if spec.deterministic:
        return Means(template, vocabulary, deterministic(model), replace(costs, level_s=math.inf))
    return Means(template, vocabulary, model, costs)


def make_encoder(
    spec: JobSpec, template: Template, vocabulary: Vocabulary, submitted_at: float, sample: Sequence[Row]
) -> PromptEncoder:
    """A chat template that reads a clock sees the moment of submission, on every worker and after every resume."""
    moment = datetime.fromtimestamp(submitted_at, UTC).astimezone()
    return PromptEncoder(vocabulary, template, system=spec.system, raw=spec.raw, submitted_at=moment, sample=sample)


def make_task(spec: JobSpec, encoder: PromptEncoder) -> Task:
    """Raises SpecError where two choices are the same tokens."""
    if spec.choices is None:
        return Generate(spec.max_tokens, spec.stop, _sampling(spec), spec.n, spec.logprobs)
    return Choose(spec.choices, tuple(encoder.continuations(spec.choices)))


def _sampling(spec: JobSpec) -> Sampling:
    return Sampling(**{field.name: getattr(spec, field.name) for field in fields(Sampling)})


def fit(outcome: Prompt | Completion, encoder: PromptEncoder, task: Task, model: LanguageModel) -> Prompt | Completion:
    """The prompt itself where the model's context holds it and its answer, otherwise the row's error."""
    if not isinstance(outcome, Prompt):
        return outcome
    tokens = len(encoder.prefix) + len(outcome.own_ids)
    room = 1 if isinstance(task, Generate) else max(map(len, task.label_ids))
    try:
        check_length(tokens, model.context, room)
    except RowError as error:
        return Completion(
            row_id=outcome.row_id,
            key=outcome.key,
            status=Status.ERROR,
            error_type=error.error_type,
            error=str(error),
            prompt_tokens=tokens,
        )
    return outcome
