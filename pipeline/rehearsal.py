"""Some of a job's rows taken through encoding and one timed batch, so that its cost is known before it is paid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.excerpt import encode_excerpt
from pipeline.inference.engine import Engine
from pipeline.inference.prefix_store import PrefixStore
from pipeline.means import Means
from pipeline.rows import Asked, Batch, Completion, Generate, Prompt, Row, Task, changed, task_of
from pipeline.spec import JobSpec

#: Rows of the batch that is timed, and the tokens it generates: seconds on a CPU.
_TIMED_ROWS = 16
_TIMED_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What was found out on the sample. Seconds are measured on this machine.

    Where rows are asked several questions, each question of a row counts as a row.
    """

    prefix: tuple[int, ...]
    prompts: tuple[Prompt, ...]
    task: Asked
    failures: tuple[Completion, ...]
    neutralised: int  #: rows of the sample whose text held special tokens
    n_computed: int  #: of the prompts, those that share no other row's answer
    own_tokens: int  #: to be computed behind the prefix: a document that several rows share counts once
    reused: float  #: share of all prompt tokens that need not be computed
    prefix_s: float
    prefill_s: float  #: for one own prompt token
    decode_s: float  #: for one token of output, 0 where labels are chosen

    def with_reuse(self, reused: float) -> "Rehearsal":
        """The same where rows share more, once they are sorted, than those of the sample do among themselves."""
        if reused <= self.reused:
            return self
        computed = (len(self.prefix) + self.own_tokens) * (1 - reused) / (1 - self.reused)
        return replace(self, reused=reused, own_tokens=max(0, round(computed) - len(self.prefix)))

    def computed_tokens(self, rows: int) -> int:
        """Prompt tokens to compute for so many rows like those of the sample."""
        return len(self.prefix) + round(self._share(rows) * self.own_tokens)

    def seconds(self, rows: int, output_tokens: float) -> float:
        """For so many rows like those of the sample, each answered with `output_tokens`."""
        per_row = self.own_tokens * self.prefill_s + self.n_computed * output_tokens * self.decode_s
        return self.prefix_s + self._share(rows) * per_row

    def _share(self, rows: int) -> float:
        return rows / (len(self.prompts) + len(self.failures))


def rehearse(spec: JobSpec, means: Means, sample: Sequence[Row], batch_rows: int) -> Rehearsal:
    """Nothing is recorded. Raises SpecError where no row of the sample can be answered at all."""
    excerpt = encode_excerpt(spec, means.vocabulary, means.model.context, sample)
    task, prompts = changed(excerpt.task, _shortened), excerpt.prompts
    timed = sorted(prompts, key=lambda prompt: prompt.tokens)[len(prompts) // 4 :][:_TIMED_ROWS]
    engine = Engine(means.model, PrefixStore(0), means.vocabulary.decode, constraints=means.constraints)
    answered, timing = engine.answer(Batch("rehearsal", 0, 0, 1, excerpt.prefix, tuple(timed)), task)
    written = sum(row.output_tokens for row in answered if isinstance(task_of(task, row.row_id), Generate))
    return Rehearsal(
        prefix=excerpt.prefix,
        prompts=prompts,
        task=excerpt.task,
        failures=excerpt.failures,
        neutralised=excerpt.neutralised,
        n_computed=len(excerpt.distinct),
        own_tokens=excerpt.sharing(means.costs, batch_rows).computed_tokens,
        reused=excerpt.reused(means.costs, batch_rows),
        prefix_s=timing.prefix_s,
        prefill_s=timing.prefill_s / sum(len(prompt.own_ids) for prompt in timed),
        decode_s=timing.decode_s / written if written else 0.0,
    )


def _shortened(task: Task) -> Task:
    if not isinstance(task, Generate):
        return task
    return replace(task, max_tokens=min(task.max_tokens, _TIMED_TOKENS), stop=(), samples=1)
