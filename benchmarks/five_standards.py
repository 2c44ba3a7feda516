"""What each of five standards saves: one request at a time the naive way, then with one standard more at each step.

Naive: the tokenizer is loaded and the prompt built and encoded anew for each request, padded to the longest one, every
token computes the whole sequence again, by attention that writes all scores down, and the whole text is decoded at each
token. What a job pays once, as warming up, is told apart. All steps must give the same tokens.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import product
import report
import small_model
import torch
import transformers
import workloads
from workloads import Workload

from pipeline.costs import usual_costs
from pipeline.inference.model import LanguageModel
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.settings import Settings

GOAL = 0.975
HEAD = ("with", "ms a row", "saved", "of the line before", "same answers")

#: Answers, and seconds for all of them.
Timed = tuple[list[product.Answer], float]


@dataclass(frozen=True, slots=True)
class Standards:
    """In the order in which they are added."""

    warm_tokenizer: bool = False
    segmented_prompt: bool = False  #: what all prompts begin with is encoded once
    reused_keys: bool = False  #: of the row's earlier tokens, and of what all prompts begin with
    flash_attention: bool = False  #: no scores in memory, and no padding
    incremental_decoding: bool = False


def main() -> None:
    arguments = _arguments()
    torch.set_grad_enabled(False)
    transformers.utils.logging.disable_progress_bar()
    print(report.machine())
    naive = Naive(small_model.directory(), arguments.rows, arguments.tokens)
    print(f"{naive.workload}, one request at a time; paid once for all: {naive.once_s * 1000:.0f} ms", flush=True)
    five = [(name, *_fastest(partial(naive.run, standards))) for name, standards in _steps()]
    model = product.load(naive.directory)
    ours = [
        (name, *_fastest(_ours(model, naive.workload, batch_rows)))
        for name, batch_rows in (("this engine, a request at a time", 1), ("this engine, in batches", arguments.rows))
    ]
    print(report.table(HEAD, list(_lines([*five, *ours]))))
    print(f"saved by the five together: {1 - five[-1][2] / five[0][2]:.1%} (goal {GOAL:.1%})")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=16, help="tokens out")
    parser.add_argument("--quick", action="store_true", help="one row, two tokens: does it run?")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows, arguments.tokens = 1, 2
    return arguments


def _steps() -> list[tuple[str, Standards]]:
    names = [field.name for field in fields(Standards)]
    steps = [("nothing: the naive way", Standards())]
    for name in names:
        steps.append((f"+ {name.replace('_', ' ')}", replace(steps[-1][1], **{name: True})))
    return steps


class Naive:
    """A plain transformers model, and requests as somebody writes them in an afternoon."""

    def __init__(self, directory: Path, rows: int, new_tokens: int) -> None:
        vocabulary = Vocabulary(directory)
        self.directory = directory
        self.workload = workloads.few_shot(vocabulary, rows, new_tokens)
        self._instruction, self._questions = workloads.instruction(vocabulary), workloads.questions(rows)
        self._longest = max(map(len, self.workload.rows))
        self._network = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        started = time.perf_counter()
        self._warm = transformers.AutoTokenizer.from_pretrained(directory)
        self._prefix = self._warm(self._instruction)["input_ids"]
        self._cache = transformers.DynamicCache(config=self._network.config)
        self._network.set_attn_implementation("sdpa")
        self._forward(self._prefix, [1] * len(self._prefix), self._cache)
        self.once_s = time.perf_counter() - started

    def run(self, standards: Standards) -> Timed:
        """An answer to each question, and seconds."""
        self._network.set_attn_implementation("sdpa" if standards.flash_attention else "eager")
        started = time.perf_counter()
        answers: list[product.Answer] = [self._answer(question, standards) for question in self._questions]
        return answers, time.perf_counter() - started

    def _answer(self, question: str, standards: Standards) -> list[int]:
        warm = standards.warm_tokenizer
        tokenizer = self._warm if warm else transformers.AutoTokenizer.from_pretrained(self.directory)
        ids, mask = self._prompt(tokenizer, question, standards)
        answer = [self._forward(ids, mask, self._cache if standards.reused_keys else None)]
        text = self._text(tokenizer, ids, answer, "", standards)
        while len(answer) < self.workload.new_tokens:
            mask = [*mask, 1]
            if standards.reused_keys:
                answer.append(self._forward(answer[-1:], mask, self._cache))
            else:
                answer.append(self._forward(ids + answer, mask, None))
            text = self._text(tokenizer, ids, answer, text, standards)
        if standards.reused_keys:
            self._cache.crop(len(self._prefix) - self._cache.get_seq_length())
        return answer

    def _prompt(self, tokenizer: Any, question: str, standards: Standards) -> tuple[list[int], list[int]]:
        """The ids that are to be computed, and which of all places before the answer hold a token."""
        own = tokenizer(question)["input_ids"] if standards.segmented_prompt else []
        whole = self._prefix + own if own else tokenizer(self._instruction + question)["input_ids"]
        own = whole[len(self._prefix) :]
        padding = 0 if standards.flash_attention else self._longest - len(own)
        if standards.reused_keys:
            return [0] * padding + own, [1] * len(self._prefix) + [0] * padding + [1] * len(own)
        return [0] * padding + whole, [0] * padding + [1] * len(whole)

    def _forward(self, ids: list[int], mask: list[int], cache: Any) -> int:
        """The likeliest token after the last of `ids`, which end where `mask` [all places] does."""
        seen = torch.tensor([mask])
        output = self._network(
            input_ids=torch.tensor([ids]),
            attention_mask=seen if 0 in mask else None,
            position_ids=(seen.cumsum(-1) - 1).clamp(min=0)[:, -len(ids) :],
            cache=cache,
            use_cache=cache is not None,
            logits_to_keep=1,
        )
        return int(output.logits[0, -1].argmax())

    def _text(self, tokenizer: Any, ids: list[int], answer: list[int], text: str, standards: Standards) -> str:
        """As somebody watching it would see it after each token."""
        if standards.incremental_decoding:
            return text + str(tokenizer.decode(answer[-1:]))
        return str(tokenizer.decode(ids + answer))


def _ours(model: LanguageModel, workload: Workload, batch_rows: int) -> Callable[[], Timed]:
    """With the prefix computed before, as above."""
    settings = replace(Settings.from_environment(), batch_rows=batch_rows)
    engine, task = product.engine(model, settings), product.task(workload)
    batches = product.batches(workload, settings, usual_costs("cpu"))
    engine.answer(batches[0], task)
    return lambda: product.answer_batches(engine, task, batches)[:2]


def _fastest(run: Callable[[], Timed]) -> Timed:
    """Of three runs, or of as many as begin within ten seconds: whatever else the machine does only slows it down."""
    begun, found = time.perf_counter(), [run()]
    while len(found) < 3 and time.perf_counter() - begun < 10:
        found.append(run())
    return min(found, key=lambda timed: timed[1])


def _lines(measured: Sequence[tuple[str, list[product.Answer], float]]) -> Iterator[tuple[object, ...]]:
    _, expected, naive = measured[0]
    before = naive
    for name, answers, seconds in measured:
        same = sum(a == b for a, b in zip(answers, expected, strict=True))
        ms = seconds * 1000 / len(answers)
        yield name, ms, f"{1 - seconds / naive:.1%}", f"{1 - seconds / before:.1%}", f"{same} of {len(answers)}"
        before = seconds


if __name__ == "__main__":
    main()
