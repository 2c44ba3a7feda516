"""Stage 2: a job's rows -> token ids, exactly as the model's own tokenizer would have them and safe from their text."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

from pipeline.errors import ModelError, RowError, SpecError
from pipeline.prompts.chat import ChatTemplate
from pipeline.prompts.choices import continuations
from pipeline.prompts.cleaning import Cleaning
from pipeline.prompts.frame import MARK, Frame, Render, find_frame
from pipeline.prompts.pieces import split
from pipeline.prompts.probes import telling_values, usual_values
from pipeline.prompts.recipe import Recipe, Values, find_recipe
from pipeline.prompts.rendered import whole_ids
from pipeline.prompts.targets import Targets
from pipeline.prompts.template import Literal, Template
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Completion, Prompt, Row, Status

_MAX_SAMPLE = 64
#: What a content-free prompt says (Zhao et al. 2021, "Calibrate Before Use").
_NO_CONTENT = "N/A"


class PromptEncoder:
    """Built once per job and process. `prefix` and each prompt's own ids together are what the model reads.

    With a chat template that is `apply_chat_template(messages, add_generation_prompt=True)`. With `raw` it is
    `tokenizer(prompt)` less the end-of-text that some tokenizers put last, since the text is to be gone on with,
    and less its BOS where the prompt begins with one. A special token in a row's text is plain text.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        template: Template,
        *,
        system: str | None,
        raw: bool,
        submitted_at: datetime,
        sample: Sequence[Row],
        cleaning: Cleaning = Cleaning(),  # noqa: B008 - frozen
        scored: str | None = None,
        closed: bool = False,
        shares: bool = True,
    ) -> None:
        """`scored` is the column whose text is each prompt's target.

        `closed`: nothing follows the prompt, so that `raw` leaves the end-of-text where the tokenizer puts it. With
        `shares` off there is no hot prefix: each prompt's own ids are all of it.

        Raises ModelError or SpecError where the chat template is missing, or fails on these messages.
        """
        self._vocabulary, self._template, self._raw = vocabulary, template, raw
        self._cleaning = cleaning
        self._opening = _opening(vocabulary, template) if raw else ()
        chat = None if raw else _chat(vocabulary, submitted_at)
        self._render: Render = (lambda text: chat.render(text, system)) if chat else (lambda text: text)
        tests = [*self._sample_values(sample), *usual_values(template.columns)]
        telling = telling_values(template.columns, chat.constants if chat else ())
        self._recipe = self._find_recipe(tests, telling) if template.columns else self._static_recipe()
        self._closing = vocabulary.closing_ids if raw and closed else ()
        self._shares = shares
        self._targets = None if scored is None else self._find_targets(scored)
        self.neutralised = 0  #: rows whose text held special tokens

    @property
    def prefix(self) -> tuple[int, ...]:
        """The hot prefix: what all rows' ids begin with."""
        return self._recipe.prefix if self._recipe and self._shares else ()

    @property
    def how(self) -> str:
        """`pieces`, or `rendered` where the chat template's way with a text could not be foreseen."""
        return "pieces" if self._recipe else "rendered"

    def encode(self, rows: Sequence[Row]) -> list[Prompt | Completion]:
        """One outcome a row, in order: its prompt, or the error that is its result."""
        outcomes: dict[int, tuple[int, ...] | RowError] = {}
        texts: dict[int, Values] = {}
        for place, row in enumerate(rows):
            try:
                texts[place] = self.values(row)
            except RowError as error:
                outcomes[place] = error
        self.neutralised += sum(self._holds_special(values) for values in texts.values())
        outcomes |= zip(texts, self._ids_of(list(texts.values())), strict=True)
        targets = self._targets.ids(rows) if self._targets else [()] * len(rows)
        return [_outcome(row, outcomes[place], targets[place]) for place, row in enumerate(rows)]

    def values(self, row: Row) -> Values:
        """The row's texts by column, clean. Raises RowError for a null or a value that is no text."""
        texts = self._template.values(row)
        return {column: self._cleaning.clean(text) for column, text in texts.items()}

    def own_ids(self, values: Values) -> tuple[int, ...]:
        """Of one row, whose texts may be others than it came with. Raises RowError."""
        (ids,) = self._ids_of([values])
        if isinstance(ids, RowError):
            raise ids
        return ids

    def content_free(self) -> tuple[int, ...]:
        """All ids of the prompt with "N/A" in every column. Raises SpecError where it has none."""
        if not self._template.columns:
            raise SpecError("--prior-correction needs a {column} in the prompt, whose text it can leave out.")
        (outcome,) = self.encode([Row(0, "", dict.fromkeys(self._template.columns, _NO_CONTENT))])
        if isinstance(outcome, Completion):
            raise SpecError(f"--prior-correction cannot make a prompt without content: {outcome.error}")
        return self.prefix + outcome.own_ids

    def continuations(self, choices: Sequence[str], *, nested: bool = False) -> list[tuple[int, ...]]:
        """Ids of each choice as it would follow the prompt. Raises SpecError where two choices are the same.

        In raw mode a space goes before a choice, unless the prompt ends with one. One may begin another if `nested`.
        """
        return continuations(self._vocabulary, self._tail(), self._joiner(), choices, nested=nested)

    def _tail(self) -> str:
        """What ends every prompt: all of it where there is no column."""
        marked = self._render(self._template.fill(dict.fromkeys(self._template.columns, MARK)))
        return marked.rpartition(MARK)[2]

    def _joiner(self) -> str:
        """What goes between the prompt and a text that follows it."""
        last = self._template.segments[-1]
        spaced = isinstance(last, Literal) and last.text[-1].isspace()
        return " " if self._raw and not spaced else ""

    def _find_targets(self, column: str) -> Targets:
        is_whole = not self._template.columns
        return Targets(self._vocabulary, column, self._tail(), self._joiner(), self._cleaning, whole=is_whole)

    def _ids_of(self, rows: Sequence[Values]) -> list[tuple[int, ...] | RowError]:
        """Behind the hot prefix, where there is one."""
        before = self._opening
        if self._recipe:
            found = self._recipe.own_ids(self._vocabulary, rows)
            before = () if self._shares else self._recipe.prefix
        else:
            found = [whole_ids(self._vocabulary, self._template, self._render, values) for values in rows]
        return [ids if isinstance(ids, RowError) else before + ids + self._closing for ids in found]

    def _static_recipe(self) -> Recipe:
        ids = (*self._opening, *self._vocabulary.encode(self._render(self._template.fill({}))).ids)
        if not ids:
            raise SpecError("The prompt is empty: there is no column in it, and no token comes of it.")
        return Recipe(ids[:-1], (ids[-1:],))

    def _find_recipe(self, tests: Sequence[Values], telling: Sequence[Values]) -> Recipe | None:
        contents = [self._template.fill(values) for values in (*tests, *telling)]
        frame = Frame() if self._raw else find_frame(self._render, contents)
        if frame is None:
            return None
        tests = [values for values in tests if not self._holds_special(values)]
        wholes = self._vocabulary.ids([frame.wrap(self._template.fill(values)) for values in tests])
        proofs = [
            (values, [*self._opening, *ids]) for values, ids in zip(tests, wholes, strict=True) if ids or self._opening
        ]
        return find_recipe(
            self._vocabulary, split(self._vocabulary, frame, self._template.segments, self._opening), proofs
        )

    def _sample_values(self, sample: Iterable[Row]) -> list[Values]:
        found: list[Values] = []
        for row in islice(sample, _MAX_SAMPLE):
            try:
                found.append(self.values(row))
            except RowError:
                continue
        return found

    def _holds_special(self, values: Values) -> bool:
        return any(self._vocabulary.plain.holds_special(text) for text in values.values())


def _chat(vocabulary: Vocabulary, submitted_at: datetime) -> ChatTemplate:
    if vocabulary.chat_template is None:
        raise ModelError(
            "This model has no chat template, so it does not know questions from answers. "
            "Use --raw to have the prompt gone on with as a text, or a model made for chat."
        )
    return ChatTemplate(vocabulary.chat_template, vocabulary.special_tokens, submitted_at)


def _opening(vocabulary: Vocabulary, template: Template) -> tuple[int, ...]:
    first = template.segments[0]
    written = vocabulary.encode(first.text).ids if isinstance(first, Literal) else []
    opening = vocabulary.opening_ids
    return () if tuple(written[: len(opening)]) == opening else opening


def _outcome(row: Row, found: tuple[int, ...] | RowError, target: tuple[int, ...] | RowError) -> Prompt | Completion:
    if not isinstance(found, RowError) and not found:
        found = RowError("empty", "The row's prompt is empty. Put some words of your own into the prompt.")
    if isinstance(found, RowError):
        return _failure(row, found)
    if isinstance(target, RowError):
        return _failure(row, target)
    return Prompt(row.row_id, row.key, found, target=target)


def _failure(row: Row, error: RowError) -> Completion:
    return Completion(row.row_id, row.key, Status.ERROR, error_type=error.error_type, error=str(error))
