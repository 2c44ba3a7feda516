"""Stage 2's parts, made from what a person asked for: a job's encoder, its task, and the check that a prompt fits."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime

from pipeline.errors import RowError, SpecError
from pipeline.prompts.chat import unheeded
from pipeline.prompts.choices import verdicts
from pipeline.prompts.cleaning import Cleaning
from pipeline.prompts.conversation import Shape
from pipeline.prompts.failure import failure
from pipeline.prompts.limits import check_length
from pipeline.prompts.nested import strings
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Choose, Completion, Embed, Generate, Prompt, Row, Sampling, Score, Task
from pipeline.spec import JobSpec


def make_encoder(
    spec: JobSpec, shape: Shape, vocabulary: Vocabulary, submitted_at: datetime, sample: Sequence[Row]
) -> PromptEncoder:
    """A chat template that reads a clock sees the moment of submission, on every worker and after every resume.

    Raises ModelError or SpecError.
    """
    _check_examples(spec, vocabulary)
    if spec.score in shape.columns:
        raise SpecError(
            f"--score {spec.score}: the prompt shows this column already, so the model would only repeat it. Take "
            f"{{{spec.score}}} out of the prompt."
        )
    return PromptEncoder(
        vocabulary,
        shape,
        raw=spec.raw,
        submitted_at=submitted_at,
        sample=sample,
        cleaning=Cleaning(spec.normalize, spec.strip_invisible, spec.unescape_html),
        scored=spec.score,
        closed=spec.embed is not None,
        shares=spec.embed != "mean",
        variables=spec.template_vars,
        tools=spec.tools,
    )


def warning(spec: JobSpec, vocabulary: Vocabulary) -> str | None:
    """Of what the job gives to the model's chat template in vain. The template is known to be valid by now."""
    if spec.raw or vocabulary.chat_template is None:
        return None
    return unheeded(vocabulary.chat_template, spec.template_vars, tools=spec.tools is not None)


def make_task(spec: JobSpec, encoder: PromptEncoder) -> Task:
    """Raises SpecError where two choices are the same tokens."""
    if spec.choices is not None:
        return _choose(spec, spec.choices, encoder)
    if spec.score is not None:
        return Score(spec.logprobs)
    if spec.embed is not None:
        return Embed(spec.embed)
    return Generate(spec.max_tokens, spec.stop, _sampling(spec), spec.n, spec.logprobs, spec.constraint)


def fit(
    outcome: Prompt | Completion, encoder: PromptEncoder, task: Task, context: int, remedy: str
) -> Prompt | Completion:
    """The prompt itself where `context` tokens hold it and its answer, otherwise the row's error, with the remedy."""
    if not isinstance(outcome, Prompt):
        return outcome
    tokens = len(encoder.prefix) + len(outcome.own_ids)
    try:
        behind = "the text that is scored" if isinstance(task, Score) else "the answer"
        check_length(tokens, context, remedy, least_room(outcome, task), behind)
    except RowError as error:
        return failure(outcome, error, tokens)
    return outcome


def least_room(prompt: Prompt, task: Task) -> int:
    """Tokens behind the prompt without which there is no answer at all."""
    match task:
        case Generate():
            return 1
        case Choose():
            return max(map(len, task.label_ids))
        case Score():
            return len(prompt.target)
        case Embed():
            return 0


def _check_examples(spec: JobSpec, vocabulary: Vocabulary) -> None:
    """They stand in every prompt, where it would count as if the prompt itself said it."""
    for number, example in enumerate(spec.examples, 1):
        if any(vocabulary.special_spans(text) for text in strings(dict(example))):
            raise SpecError(f"Example {number} holds a special token of the model. Take it out of it.")


def _choose(spec: JobSpec, labels: tuple[str, ...], encoder: PromptEncoder) -> Choose:
    label_ids = encoder.continuations(labels, nested=spec.length_normalize or spec.multi_label)
    if spec.multi_label:
        label_ids = encoder.continuations(verdicts(labels), nested=True)
    content_free = encoder.content_free() if spec.prior_correction else ()
    return Choose(labels, tuple(label_ids), spec.length_normalize, spec.multi_label, content_free)


def _sampling(spec: JobSpec) -> Sampling:
    return Sampling(**{field.name: getattr(spec, field.name) for field in fields(Sampling)})
