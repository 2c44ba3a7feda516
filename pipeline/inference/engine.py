"""Stage 5: a batch in, a completion for each of its rows out. Knows token ids only; text comes from `decode`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.inference.choices import score_choices
from pipeline.inference.forward import Stem, prefill
from pipeline.inference.generation import Answer, generate
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.stopping import Decoder, StopRule
from pipeline.rows import Batch, BatchTiming, Choose, Completion, Generate, Prompt, Status, Task
from pipeline.timing import Stopwatch

_NUMERIC = (
    "numeric",
    "The model's logits for this row are not finite numbers, so there is no honest answer.",
)


class Engine:
    """One model on one device, kept warm; prefixes are remembered from batch to batch."""

    def __init__(self, model: LanguageModel, prefixes: PrefixStore, decode: Decoder) -> None:
        self._model, self._prefixes, self._decode = model, prefixes, decode

    @torch.inference_mode()
    def answer(self, batch: Batch, task: Task) -> tuple[list[Completion], BatchTiming]:
        """A completion for every prompt, in no promised order: join by row_id."""
        watch = Stopwatch()
        with watch.stage("prefix"):
            stem, remembered = self._stem(batch.prefix)
        prompts = sorted(batch.prompts, key=lambda prompt: len(prompt.own_ids))
        match task:
            case Generate():
                completions = self._generate(stem, prompts, task, watch)
            case Choose():
                completions = self._choose(stem, prompts, task, watch)
        own = sum(len(prompt.own_ids) for prompt in prompts)
        timing = BatchTiming(
            prefix_s=watch.seconds["prefix"],
            prefill_s=watch.seconds["prefill"],
            decode_s=watch.seconds["decode"],
            detokenize_s=watch.seconds["detokenize"],
            computed_tokens=own + (0 if remembered else stem.length),
            reused_tokens=stem.length * (len(prompts) - (0 if remembered else 1)),
            output_tokens=sum(completion.output_tokens for completion in completions),
        )
        return completions, timing

    def _stem(self, prefix: tuple[int, ...]) -> tuple[Stem, bool]:
        if not prefix:
            return Stem(0, None), True
        lanes, remembered = self._prefixes.get(prefix, self._compute_prefix)
        return Stem(len(prefix), lanes), remembered

    def _compute_prefix(self, prefix: tuple[int, ...]) -> Lanes:
        lanes = Lanes(self._model.shape, 1, len(prefix))
        prefill(self._model, Stem(0, None), [prefix], lanes)
        return lanes

    def _generate(self, stem: Stem, prompts: list[Prompt], task: Generate, watch: Stopwatch) -> list[Completion]:
        rule = StopRule(self._model.stop_ids, task.stop, self._decode)
        room = self._model.context - stem.length
        limits = [min(task.max_tokens, room - len(prompt.own_ids)) for prompt in prompts]
        answers = generate(self._model, stem, [prompt.own_ids for prompt in prompts], limits, rule, watch)
        with watch.stage("detokenize"):
            return [_written(p, stem, answer, rule) for p, answer in zip(prompts, answers, strict=True)]

    def _choose(self, stem: Stem, prompts: list[Prompt], task: Choose, watch: Stopwatch) -> list[Completion]:
        with watch.stage("prefill"):
            scores = score_choices(self._model, stem, [prompt.own_ids for prompt in prompts], task.label_ids)
        return [_chosen(p, stem, row, task.labels) for p, row in zip(prompts, scores, strict=True)]


def _written(prompt: Prompt, stem: Stem, answer: Answer, rule: StopRule) -> Completion:
    if answer.finish == "numeric":
        return _failed(prompt, stem)
    return Completion(
        row_id=prompt.row_id,
        key=prompt.key,
        status=Status.TRUNCATED if answer.finish == "length" else Status.OK,
        output=rule.text(answer.token_ids),
        finish_reason=answer.finish,
        prompt_tokens=stem.length + len(prompt.own_ids),
        reused_tokens=stem.length,
        output_tokens=len(answer.token_ids),
    )


def _chosen(prompt: Prompt, stem: Stem, scores: Tensor, labels: Sequence[str]) -> Completion:
    if not scores.isfinite().all():
        return _failed(prompt, stem)
    probabilities = scores.double().softmax(-1)
    best = int(probabilities.argmax())
    return Completion(
        row_id=prompt.row_id,
        key=prompt.key,
        status=Status.OK,
        output=labels[best],
        label=labels[best],
        score=float(probabilities[best]),
        finish_reason="choice",
        prompt_tokens=stem.length + len(prompt.own_ids),
        reused_tokens=stem.length,
    )


def _failed(prompt: Prompt, stem: Stem) -> Completion:
    kind, message = _NUMERIC
    return Completion(
        row_id=prompt.row_id,
        key=prompt.key,
        status=Status.ERROR,
        error_type=kind,
        error=message,
        prompt_tokens=stem.length + len(prompt.own_ids),
        reused_tokens=stem.length,
    )
