"""Stage 2 of one job, without its shards: its rows are asked its questions, of which most jobs have one."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from pipeline.encoder import make_encoder, make_task
from pipeline.fitting import Fitting
from pipeline.prompts.conversation import Shape
from pipeline.prompts.shapes import shape_of, told_of
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Asked, Completion, Prompt, Questions, Row, Task
from pipeline.spec import JobSpec
from pipeline.twins import distinct

#: And what is left of a text that was cut.
Fitted = tuple[Prompt | Completion, str | None]


@dataclass(frozen=True, slots=True)
class _Question:
    encoder: PromptEncoder
    task: Task
    fitting: Fitting
    dedupes: bool

    def fitted(self, rows: Sequence[Row]) -> list[Fitted]:
        return [self.fitting.fit(row, outcome) for row, outcome in zip(rows, self.encoder.encode(rows), strict=True)]


class Asking:
    """On every worker the same."""

    def __init__(
        self,
        spec: JobSpec,
        vocabulary: Vocabulary,
        context: int,
        submitted_at: datetime,
        sample: Sequence[Row] = (),
        shape: Shape | None = None,
    ) -> None:
        """`context` is the model's; `shape` is that of other prompts than the job's own.

        Raises SpecError, which names the question, or ModelError.
        """
        self._questions: list[_Question] = []
        for place, asked in enumerate(spec.asked):
            with told_of(spec, place):
                its_shape = shape or shape_of(asked)
                encoder = make_encoder(asked, its_shape, vocabulary, submitted_at, sample)
                task = make_task(asked, encoder)
                fitting = Fitting(asked, its_shape, vocabulary, encoder, task, context)
                self._questions.append(_Question(encoder, task, fitting, asked.dedupes))
        tasks = tuple(question.task for question in self._questions)
        self.task: Asked = Questions(tasks) if spec.questions else tasks[0]
        #: Token ids that all prompts of the job continue.
        self.prefix = _common([question.encoder.prefix for question in self._questions])

    @property
    def neutralised(self) -> int:
        """Prompts so far whose row's text held special tokens."""
        return sum(question.encoder.neutralised for question in self._questions)

    def ask(self, rows: Sequence[Row], row_ids: Collection[int] | None = None) -> list[Prompt | Completion]:
        """Of rows of the input, for each question of each the prompt behind `prefix`, or the error that is its result.

        With `row_ids`, of those alone (rows.Questions).
        """
        fitted = [question.fitted(rows) for question in self._questions]
        of_rows = zip(rows, zip(*fitted, strict=True), strict=True)
        found = [outcome for row, its in of_rows for outcome in self._asked(row, its)]
        return found if row_ids is None else [outcome for outcome in found if outcome.row_id in row_ids]

    def _asked(self, row: Row, fitted: Sequence[Fitted]) -> Iterator[Prompt | Completion]:
        """Of one row. All questions are about the same text: what one leaves of it is all that the others read."""
        asked = list(zip(self._questions, fitted, strict=True))
        for place, (question, (outcome, text)) in enumerate(asked):
            cut = (its for other, (_, its) in asked if other.fitting.column == question.fitting.column)
            left = min((its for its in cut if its is not None), key=len, default=None)
            if left is not None and left != text and isinstance(outcome, Prompt):
                outcome = question.fitting.with_text(row, outcome, left)
            behind = question.encoder.prefix[len(self.prefix) :]
            if behind and isinstance(outcome, Prompt):
                outcome = replace(outcome, own_ids=behind + outcome.own_ids)
            yield outcome if len(asked) == 1 else replace(outcome, row_id=row.row_id * len(asked) + place)

    def distinct(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Those of the same question that are the same as one, unless each is to have an answer of its own."""
        count = len(self._questions)
        own = ([each for each in prompts if each.row_id % count == place] for place in range(count))
        pairs = zip(self._questions, own, strict=True)
        return [each for question, its in pairs for each in (distinct(its) if question.dedupes else its)]


def check_questions(spec: JobSpec, vocabulary: Vocabulary) -> None:
    """Raises SpecError or ModelError for what can be known to fail before a model or a row is there."""
    Asking(spec, vocabulary, 0, datetime.now().astimezone())


def _common(prefixes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    alike = takewhile(lambda ids: len(set(ids)) == 1, zip(*prefixes, strict=False))
    return tuple(ids[0] for ids in alike)
