"""Stage 2, last step: prompts that the context holds with their answers; a job may ask to have a text cut for that."""

from dataclasses import replace

from pipeline.encoder import fit, least_room
from pipeline.errors import RowError
from pipeline.prompts.conversation import Shape
from pipeline.prompts.cut_column import column_to_cut
from pipeline.prompts.cuts import cut
from pipeline.prompts.failure import failure
from pipeline.prompts.limits import nothing_left, too_long_without
from pipeline.prompts.nested import not_text
from pipeline.prompts.ruler import Ruler
from pipeline.prompts.template import Given
from pipeline.prompts.tokens import PromptEncoder
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Completion, Generate, Prompt, Row, Task
from pipeline.spec import JobSpec

#: Cuts that miss by few tokens and are taken back by as many; each later one is half of the one before.
_NEAR_MISSES = 4


class Fitting:
    """Of one job, on every worker the same."""

    def __init__(
        self,
        spec: JobSpec,
        shape: Shape,
        vocabulary: Vocabulary,
        encoder: PromptEncoder,
        task: Task,
        context: int,
    ) -> None:
        """Raises SpecError where it is not plain which column is to be cut."""
        self._how, self._remedy = spec.on_too_long, shape.remedy
        self.column = column_to_cut(spec, shape)  #: the one that may lose text; None: none may
        self._times = shape.times(self.column) if self.column else 0
        self._vocabulary, self._encoder, self._task, self._context = vocabulary, encoder, task, context

    def fit(self, row: Row, outcome: Prompt | Completion) -> tuple[Prompt | Completion, str | None]:
        """The row's prompt, cut where it leaves too little room, or the error that is its result; and what is left of
        a text that was cut."""
        if self.column is None or not isinstance(outcome, Prompt):
            return fit(outcome, self._encoder, self._task, self._context, self._remedy), None
        tokens = self._tokens(outcome.own_ids)
        if tokens + answer_room(outcome, self._task, self._context) <= self._context:
            return outcome, None
        try:
            return self._cut(outcome, self._encoder.values(row), self.column, tokens)
        except RowError as error:
            return failure(outcome, error, tokens), None

    def with_text(self, row: Row, prompt: Prompt, text: str) -> Prompt:
        """One that fits, with what was left of the text for another question; as it is where that does not fit."""
        assert self.column is not None
        try:
            own_ids = self._own_ids(self._encoder.values(row), self.column, text)
        except RowError:
            return prompt
        tokens, whole = self._tokens(own_ids), self._tokens(prompt.own_ids) + prompt.cut_tokens
        if not own_ids or tokens + answer_room(prompt, self._task, self._context) > self._context:
            return prompt
        return replace(prompt, own_ids=own_ids, cut_tokens=max(0, whole - tokens))

    def _cut(self, prompt: Prompt, values: Given, column: str, before: int) -> tuple[Prompt, str]:
        """The ids are those of the whole prompt with the cut text in it: lengths are guessed, and then proven."""
        room = answer_room(prompt, self._task, self._context)
        most = self._context - room
        without = self._tokens(self._own_ids(values, column, ""))
        if without > most:
            raise too_long_without(column, without, self._context, room)
        if not isinstance(text := values[column], str):
            raise not_text(column, text)
        ruler = Ruler(self._vocabulary.plain, text)
        allowed = (most - without) // self._times
        for missed in range(_NEAR_MISSES + before.bit_length() + 1):
            left = cut(self._how, ruler, allowed)
            own_ids = self._own_ids(values, column, left)
            over = self._tokens(own_ids) - most
            if over <= 0 and not left.strip():
                raise nothing_left(column, room)
            if over <= 0 and own_ids:
                return replace(prompt, own_ids=own_ids, cut_tokens=before - self._tokens(own_ids)), left
            allowed = max(0, allowed - over // self._times - 1) if missed < _NEAR_MISSES else allowed // 2
        raise too_long_without(column, without, self._context, room)

    def _own_ids(self, values: Given, column: str, text: str) -> tuple[int, ...]:
        return self._encoder.own_ids({**values, column: text})

    def _tokens(self, own_ids: tuple[int, ...]) -> int:
        return len(self._encoder.prefix) + len(own_ids)


def answer_room(prompt: Prompt, task: Task, context: int) -> int:
    """Tokens that a cut leaves for the answer: all that it may have, but never more than half of the context."""
    return min(task.max_tokens, context // 2) if isinstance(task, Generate) else least_room(prompt, task)
