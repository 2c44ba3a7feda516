"""Stage 5: a batch in, a completion for each of its rows out. Knows token ids only; text comes from `decode`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.inference.choices import score_choices
from pipeline.inference.generation import Answer, generate
from pipeline.inference.model import LanguageModel
from pipeline.inference.planting import plant
from pipeline.inference.prefix_store import Path, PrefixStore
from pipeline.inference.sampling import Picker
from pipeline.inference.stem import Stem
from pipeline.inference.stopping import Decoder, StopRule
from pipeline.rows import Batch, BatchTiming, Choose, Completion, Generate, Prompt, Status, Task
from pipeline.timing import Stopwatch

_NUMERIC = "The model's logits for this row are not finite numbers, so there is no honest answer."


@dataclass(frozen=True, slots=True)
class _Row:
    """A prompt, split into the nodes that it shares and the ids that are its alone."""

    prompt: Prompt
    paths: tuple[Path, ...]
    own_ids: tuple[int, ...]
    shared: int  #: tokens of the prompt before its own

    @property
    def tokens(self) -> int:
        return self.shared + len(self.own_ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.paths[-1] + self.own_ids if self.paths else self.own_ids


class Engine:
    """One model on one device, kept warm; prefixes are remembered from batch to batch."""

    def __init__(self, model: LanguageModel, prefixes: PrefixStore, decode: Decoder) -> None:
        self._model, self._prefixes, self._decode = model, prefixes, decode

    @torch.inference_mode()
    def answer(self, batch: Batch, task: Task) -> tuple[list[Completion], BatchTiming]:
        """A completion for every prompt, in no promised order: join by row_id."""
        watch = Stopwatch()
        rows = list(_rows(batch))
        with watch.stage("prefix"):
            stem, planted = plant(self._model, self._prefixes, [row.paths for row in rows])
        match task:
            case Generate():
                completions = self._generate(stem, rows, task, watch)
            case Choose():
                completions = self._choose(stem, rows, task, watch)
        computed = planted + sum(len(row.own_ids) for row in rows)
        timing = BatchTiming(
            prefix_s=watch.seconds["prefix"],
            prefill_s=watch.seconds["prefill"],
            decode_s=watch.seconds["decode"],
            detokenize_s=watch.seconds["detokenize"],
            computed_tokens=computed,
            reused_tokens=sum(row.tokens for row in rows) - computed,
            output_tokens=sum(completion.output_tokens for completion in completions),
        )
        return completions, timing

    def _generate(self, stem: Stem, rows: list[_Row], task: Generate, watch: Stopwatch) -> list[Completion]:
        rule = StopRule(self._model.stop_ids, task.stop, self._decode)
        limits = [min(task.max_tokens, self._model.context - row.tokens) for row in rows]
        picker = Picker(task.sampling, [row.prompt.row_id for row in rows], [row.token_ids for row in rows])
        answers = generate(self._model, stem, [row.own_ids for row in rows], limits, rule, picker, watch)
        with watch.stage("detokenize"):
            return [_written(row, answer, rule) for row, answer in zip(rows, answers, strict=True)]

    def _choose(self, stem: Stem, rows: list[_Row], task: Choose, watch: Stopwatch) -> list[Completion]:
        with watch.stage("prefill"):
            scores = score_choices(self._model, stem, [row.own_ids for row in rows], task.label_ids)
        return [_chosen(row, of_labels, task.labels) for row, of_labels in zip(rows, scores, strict=True)]


def _rows(batch: Batch) -> Iterator[_Row]:
    """Depth first, so that what reads a node lies together; short rows before long ones below each."""

    def order(prompt: Prompt) -> tuple[tuple[int, ...], int]:
        return prompt.own_ids[: prompt.cuts[-1]] if prompt.cuts else (), len(prompt.own_ids)

    for prompt in sorted(batch.prompts, key=order):
        paths = tuple(batch.prefix + prompt.own_ids[:cut] for cut in prompt.cuts)
        last = prompt.cuts[-1] if prompt.cuts else 0
        whole = (batch.prefix, *paths) if batch.prefix else paths
        yield _Row(prompt, whole, prompt.own_ids[last:], len(batch.prefix) + last)


def _written(row: _Row, answer: Answer, rule: StopRule) -> Completion:
    if answer.finish == "numeric":
        return _failed(row)
    return Completion(
        row_id=row.prompt.row_id,
        key=row.prompt.key,
        status=Status.TRUNCATED if answer.finish == "length" else Status.OK,
        output=rule.text(answer.token_ids),
        finish_reason=answer.finish,
        prompt_tokens=row.tokens,
        reused_tokens=row.shared,
        output_tokens=len(answer.token_ids),
    )


def _chosen(row: _Row, scores: Tensor, labels: Sequence[str]) -> Completion:
    if not scores.isfinite().all():
        return _failed(row)
    probabilities = scores.double().softmax(-1)
    best = int(probabilities.argmax())
    return Completion(
        row_id=row.prompt.row_id,
        key=row.prompt.key,
        status=Status.OK,
        output=labels[best],
        label=labels[best],
        score=float(probabilities[best]),
        finish_reason="choice",
        prompt_tokens=row.tokens,
        reused_tokens=row.shared,
    )


def _failed(row: _Row) -> Completion:
    return Completion(
        row_id=row.prompt.row_id,
        key=row.prompt.key,
        status=Status.ERROR,
        error_type="numeric",
        error=_NUMERIC,
        prompt_tokens=row.tokens,
        reused_tokens=row.shared,
    )
