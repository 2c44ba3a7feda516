"""What travels: the nouns that the stages of a row's journey hand to each other. Imports nothing of ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Status(StrEnum):
    """How a row ended. Every row of a job ends with exactly one of these."""

    OK = "ok"
    TRUNCATED = "truncated"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the input, cut down to the columns that the prompt uses."""

    row_id: int  #: position in the job, from 0
    key: str  #: the user's id for the row, or str(row_id)
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Twin:
    """A row whose prompt is, token by token, another row's, whose answer it shares."""

    row_id: int
    key: str
    cut_tokens: int = 0  #: as for a prompt: a longer text may end as the same one


@dataclass(frozen=True, slots=True)
class Follower:
    """A row whose prompt a row of another shard has, too, and whose answer is on its way: that is its own."""

    row_id: int
    key: str
    cut_tokens: int  #: as for a Twin
    leader: int  #: id of that row


@dataclass(frozen=True, slots=True)
class Prompt:
    """A row as token ids: what comes after the job's shared prefix. Never empty.

    `cuts` are lengths, in ascending order, at which what it shares with other rows ends (prefix_tree.py).
    """

    row_id: int
    key: str
    own_ids: tuple[int, ...]
    cuts: tuple[int, ...] = ()
    cut_tokens: int = 0  #: tokens of the row's text that were left out so that it fits
    target: tuple[int, ...] = ()  #: ids of a text behind it that is to be scored
    twins: tuple[Twin, ...] = ()  #: further rows of the same prompt

    @property
    def row_ids(self) -> tuple[int, ...]:
        """Of all rows that its answer is for."""
        return (self.row_id, *(twin.row_id for twin in self.twins))

    @property
    def tokens(self) -> int:
        """All that the row brings along behind the job's prefix."""
        return len(self.own_ids) + len(self.target)

    @property
    def alone(self) -> int:
        """Tokens that it shares with no other row."""
        return len(self.own_ids) - (self.cuts[-1] if self.cuts else 0)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows answered together. Prompts all continue `prefix`; `fence` proves the right to record."""

    job_id: str
    batch_no: int
    fence: int
    attempt: int  #: 1 for the first try
    prefix: tuple[int, ...]
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class LikelyToken:
    """A token that could have come next, and the natural logarithm of its probability."""

    token_id: int
    token: str  #: its text; empty for a control token, such as the one that ends an answer
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token that did come, by the model's own distribution: before temperature, penalties and all that narrows it."""

    token_id: int
    token: str
    logprob: float
    top: tuple[LikelyToken, ...] = ()  #: the likeliest tokens in its place, in that order; it may be one of them


@dataclass(frozen=True, slots=True)
class Sample:
    """One of several answers to the same row."""

    output: str
    finish_reason: str  #: stop | length | cut: by a stop string, short of the shape that it was held to
    output_tokens: int
    logprobs: tuple[TokenLogprob, ...] = ()  #: of all `output_tokens`, the stop token included


@dataclass(frozen=True, slots=True)
class LabelScore:
    """How likely one of the labels is."""

    label: str
    probability: float


@dataclass(frozen=True, slots=True)
class Completion:
    """The one outcome of one row. `error` and `error_type` are set exactly when status is ERROR.

    Where several samples were asked for, they are all in `samples`, and `output` and `logprobs` are the first one's;
    the row is TRUNCATED, and its finish_reason `length` or `cut`, where any of them is; `output_tokens` is their sum.
    """

    row_id: int
    key: str
    status: Status
    output: str | None = None
    label: str | None = None
    score: float | None = None  #: probability of `label` among the choices
    finish_reason: str | None = None  #: stop | length | cut | choice
    error_type: str | None = None
    error: str | None = None
    prompt_tokens: int = 0  #: the whole prompt, the shared prefix included
    reused_tokens: int = 0  #: of these, read from the prefix store
    output_tokens: int = 0
    samples: tuple[Sample, ...] = ()  #: all, where more than one was asked for
    logprobs: tuple[TokenLogprob, ...] = ()  #: of all tokens of `output`, the stop token included, where asked for
    labels: tuple[str, ...] = ()  #: where several may hold: all that do, the likeliest first
    scores: tuple[LabelScore, ...] = ()  #: of all choices, in the order in which they were given
    logprob: float | None = None  #: natural, of a given text after the prompt
    perplexity: float | None = None  #: of the same text: exp(-logprob / its tokens)
    embedding: bytes | None = None  #: float32 numbers, little-endian, end to end
    parsed: str | None = None  #: JSON, where the answer was held to a schema, is whole and of that schema
    cut_tokens: int = 0  #: tokens of the row's text that were left out so that the prompt fits
    copied_from: str | None = None  #: id of the job that computed this answer to the same prompt
    prompt_hash: bytes | None = None  #: of all that it hangs on, where it would be the same again


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """Seconds by stage and tokens of one batch, as the database keeps them."""

    load_s: float = 0.0  #: from the claim to the prompts, where they came by a message
    encode_s: float = 0.0
    prefix_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    detokenize_s: float = 0.0
    computed_tokens: int = 0  #: prompt tokens that went through the model, the prefix where it was computed
    reused_tokens: int = 0  #: prompt tokens read from the prefix store
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How each next token is picked. As it stands: greedily, always the likeliest."""

    temperature: float = 0.0  #: 0 picks the likeliest token; 1 draws by the model's own probabilities
    top_k: int | None = None  #: draw among so many likeliest tokens
    top_p: float | None = None  #: draw among the fewest tokens that together are so likely
    min_p: float | None = None  #: draw among tokens that are so likely, as a share of the likeliest one
    repetition_penalty: float = 1.0  #: over 1 makes tokens of the prompt and of the answer less likely
    presence_penalty: float = 0.0  #: over 0 makes tokens of the answer less likely
    frequency_penalty: float = 0.0  #: over 0 makes tokens of the answer less likely, the more the oftener they came
    seed: int = 0  #: of the job; each sample of a row draws by numbers of its own, made from this and their numbers


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a written answer is held to, token by token."""

    kind: Literal["json_schema", "regex", "grammar"]
    text: str


@dataclass(frozen=True, slots=True)
class Generate:
    """Write on after the prompt until a stop token, a stop string or the limit."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    samples: int = 1  #: answers to each row
    logprobs: int | None = None  #: None: none; 0: of each token of the answer; k: of the k likeliest in its place too
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class Choose:
    """Pick the likeliest label; `label_ids` are each label's tokens after the prompt.

    Where `several` may hold, each label has two of them: how the prompt goes on where it holds, and where it does not.
    """

    labels: tuple[str, ...]
    label_ids: tuple[tuple[int, ...], ...]
    length_normalize: bool = False  #: compare the mean log-probability of a label's tokens, not their sum
    several: bool = False
    content_free: tuple[int, ...] = ()  #: all ids of a prompt that says nothing, whose probabilities divide out

    @property
    def longest(self) -> int:
        """Tokens of a label."""
        return max(map(len, self.label_ids))


@dataclass(frozen=True, slots=True)
class Score:
    """Tell how likely each prompt's `target` is behind it."""

    logprobs: int | None = None  #: as for Generate


@dataclass(frozen=True, slots=True)
class Embed:
    """Turn each prompt into a vector of length 1, out of the model's states of its tokens behind the final norm."""

    pooling: Literal["last", "mean"]  #: the last token's state, or the mean over all tokens


Task = Generate | Choose | Score | Embed


@dataclass(frozen=True, slots=True)
class Questions:
    """The tasks of several questions over the same row, in their order.

    To all stages each question of a row is a row of its own: question q of n, asked of the input's row r, has the
    row_id r * n + q, and the key of r.
    """

    tasks: tuple[Task, ...]


Asked = Task | Questions


def tasks_of(asked: Asked) -> tuple[Task, ...]:
    """One for each question."""
    return asked.tasks if isinstance(asked, Questions) else (asked,)


def task_of(asked: Asked, row_id: int) -> Task:
    """That of the row's question."""
    tasks = tasks_of(asked)
    return tasks[row_id % len(tasks)]


def changed(asked: Asked, change: Callable[[Task], Task]) -> Asked:
    """Each of its tasks by another one."""
    return Questions(tuple(map(change, asked.tasks))) if isinstance(asked, Questions) else change(asked)


def samples_of(task: Task) -> int:
    """Answers to one prompt."""
    return task.samples if isinstance(task, Generate) else 1
