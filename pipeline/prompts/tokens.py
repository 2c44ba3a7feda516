"""Stage 2: a job's rows -> token ids, exactly as the model's own tokenizer would have them and safe from their text."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice, repeat
from types import MappingProxyType

from pipeline.errors import ModelError, RowError, SpecError
from pipeline.prompts.chat import ChatTemplate
from pipeline.prompts.choices import continuations
from pipeline.prompts.cleaning import Cleaning
from pipeline.prompts.content import Content
from pipeline.prompts.conversation import Message, Shape, Varying, as_chat
from pipeline.prompts.failure import failure
from pipeline.prompts.frame import MARK, find_frame
from pipeline.prompts.nested import strings, with_strings
from pipeline.prompts.pieces import split
from pipeline.prompts.probes import telling_values, usual_values
from pipeline.prompts.recipe import Recipe, Values, find_recipe
from pipeline.prompts.rendered import Chat, RenderChat, Rendered
from pipeline.prompts.targets import Targets
from pipeline.prompts.template import Given, Template
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Completion, Prompt, Row

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
        shape: Shape,
        *,
        raw: bool,
        submitted_at: datetime,
        sample: Sequence[Row],
        cleaning: Cleaning = Cleaning(),  # noqa: B008 - frozen
        scored: str | None = None,
        closed: bool = False,
        shares: bool = True,
        variables: Mapping[str, object] = MappingProxyType({}),
        tools: Sequence[object] | None = None,
    ) -> None:
        """`scored` is the column whose text is each prompt's target.

        `closed`: nothing follows the prompt, so that `raw` leaves the end-of-text where the tokenizer puts it. With
        `shares` off there is no hot prefix: each prompt's own ids are all of it. `variables` and `tools` are what the
        chat template is given.

        Raises ModelError or SpecError where the chat template is missing, or fails on these messages.
        """
        self._vocabulary, self._raw, self._cleaning = vocabulary, raw, cleaning
        self._cleans = cleaning != Cleaning()
        self._shape = shape.at(submitted_at)
        self._varying = self._shape.varying
        chat = None if raw else _chat(vocabulary, submitted_at, variables, tools)
        self._render: RenderChat = chat.render if chat else _bare
        self._marked = self._shape.marked(MARK)
        self._opening = _opening(vocabulary, _bare(self._marked).partition(MARK)[0]) if raw else ()
        self._closing = vocabulary.closing_ids if raw and closed else ()
        self._recipe = self._find_recipe(sample, chat.constants if chat else ()) if shape.columns else self._static()
        self._rendered = Rendered(vocabulary, self._render, [] if self._recipe else self._chats(sample))
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
        outcomes = [self._given(row) for row in rows]
        given = [each for each in outcomes if not isinstance(each, RowError)]
        self.neutralised += sum(map(self._is_neutralised, rows, outcomes))
        found = iter(self._ids_of(given))
        ids = (each if isinstance(each, RowError) else next(found) for each in outcomes)
        targets = self._targets.ids(rows) if self._targets else repeat(())
        return [_outcome(*each) for each in zip(rows, ids, targets, strict=False)]

    def values(self, row: Row) -> Given:
        """By column, all texts in them clean. Raises RowError for a value that the prompt cannot use."""
        given = self._shape.values(row)
        if not self._cleans:
            return given
        return {column: with_strings(value, self._cleaning.clean) for column, value in given.items()}

    def _given(self, row: Row) -> Given | RowError:
        try:
            return self.values(row)
        except RowError as error:
            return error

    def own_ids(self, values: Given) -> tuple[int, ...]:
        """Of one row, whose texts may be others than it came with. Raises RowError."""
        (ids,) = self._ids_of([values])
        if isinstance(ids, RowError):
            raise ids
        return ids

    def content_free(self) -> tuple[int, ...]:
        """All ids of the prompt with "N/A" in every column. Raises SpecError where it has none."""
        if not self._shape.columns:
            raise SpecError("--prior-correction needs a {column} in the prompt, whose text it can leave out.")
        (outcome,) = self.encode([Row(0, "", dict.fromkeys(self._shape.columns, _NO_CONTENT))])
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
        return self._render(self._marked).rpartition(MARK)[2]

    def _joiner(self) -> str:
        """What goes between the prompt and a text that follows it."""
        return " " if self._raw and not _bare(self._marked)[-1:].isspace() else ""

    def _find_targets(self, column: str) -> Targets:
        is_whole = not self._shape.columns
        return Targets(self._vocabulary, column, self._tail(), self._joiner(), self._cleaning, whole=is_whole)

    def _ids_of(self, rows: Sequence[Given]) -> list[tuple[int, ...] | RowError]:
        """Behind the hot prefix, where there is one."""
        if not self._recipe:
            return self._whole_ids(rows)
        before = () if self._shares else self._recipe.prefix
        return [self._between(before, ids) for ids in self._own_ids(self._recipe, rows)]

    def _between(self, before: tuple[int, ...], ids: tuple[int, ...] | RowError) -> tuple[int, ...] | RowError:
        """And what stands behind every prompt."""
        return before + ids + self._closing if not isinstance(ids, RowError) and (before or self._closing) else ids

    def _own_ids(self, recipe: Recipe, rows: Sequence[Given]) -> list[tuple[int, ...] | RowError]:
        texts = [self._texts(given) for given in rows]
        found = iter(recipe.own_ids(self._vocabulary, [each for each in texts if not isinstance(each, RowError)]))
        return [each if isinstance(each, RowError) else next(found) for each in texts]

    def _texts(self, given: Given) -> Values | RowError:
        try:
            return self._varying.texts(given) if self._varying else {}
        except RowError as error:
            return error

    def _whole_ids(self, rows: Sequence[Given]) -> list[tuple[int, ...] | RowError]:
        given = [self._brought(each) for each in rows]
        found = iter(self._rendered.ids([chat for chat in given if isinstance(chat, list)]))
        return [self._between(self._opening, next(found)) if isinstance(each, list) else each for each in given]

    def _chats(self, sample: Iterable[Row]) -> list[list[Message]]:
        found = []
        for row in islice(sample, _MAX_SAMPLE):
            with suppress(RowError):
                found.append(self._brought(self.values(row)))
        return [each for each in found if isinstance(each, list)]

    def _brought(self, given: Given) -> list[Message] | tuple[int, ...] | RowError:
        """What a row brings along: messages to be rendered, or all that there is to say of it."""
        try:
            ids = self._shape.ids(given)
            return self._shape.messages(given) if ids is None else self._known(ids)
        except RowError as error:
            return error

    def _known(self, ids: tuple[int, ...]) -> tuple[int, ...] | RowError:
        if (unknown := self._vocabulary.unknown(ids)) is None:
            return ids
        return RowError("wrong_type", f"The prompt of this row has the token id {unknown}, which the model has not.")

    def _static(self) -> Recipe:
        try:
            messages = self._shape.messages({})
        except RowError as error:
            raise SpecError(str(error)) from error
        ids = (*self._opening, *self._vocabulary.encode(self._render(as_chat(messages))).ids)
        if not ids:
            raise SpecError("The prompt is empty: there is no column in it, and no token comes of it.")
        return Recipe(ids[:-1], (ids[-1:],))

    def _find_recipe(self, sample: Iterable[Row], constants: Sequence[str]) -> Recipe | None:
        """None where each row must be rendered as a whole."""
        varying = self._varying
        if varying is None or any(self._vocabulary.special_spans(text) for text in varying.within):
            return None
        template = Template(varying.segments)
        tests = [*self._sample_texts(varying, sample), *usual_values(template.columns)]
        contents = [template.fill(values) for values in (*tests, *telling_values(template.columns, constants))]
        frame = find_frame(lambda text: self._render(varying.around(text)), contents)
        if frame is None:
            return None
        tests = [values for values in tests if not self._makes_special(template.content(values))]
        wholes = self._vocabulary.ids([frame.wrap(template.fill(values)) for values in tests])
        proofs = [
            (values, [*self._opening, *ids]) for values, ids in zip(tests, wholes, strict=True) if ids or self._opening
        ]
        return find_recipe(self._vocabulary, split(self._vocabulary, frame, varying.segments, self._opening), proofs)

    def _sample_texts(self, varying: Varying, sample: Iterable[Row]) -> list[Values]:
        found: list[Values] = []
        for row in islice(sample, _MAX_SAMPLE):
            try:
                found.append(varying.texts(self.values(row)))
            except RowError:
                continue
        return found

    def _makes_special(self, content: Content) -> bool:
        """Whether a value has a special token in it, or makes one with the template's own text beside it."""
        return self._vocabulary.special_spans(content.text) != self._vocabulary.special_spans(content.trusted)

    def _is_neutralised(self, row: Row, given: Given | RowError) -> bool:
        if isinstance(given, RowError):
            return False
        return self._holds_special(given) or (self._targets is not None and self._targets.holds_special(row))

    def _holds_special(self, values: Given) -> bool:
        """Most values are texts, which are not walked through as nested ones are."""
        holds = self._vocabulary.plain.holds_special
        return any(
            holds(value) if isinstance(value, str) else any(map(holds, strings(value))) for value in values.values()
        )


def _bare(chat: Chat) -> str:
    """In raw mode there is nothing around a message."""
    return "".join(str(message["content"]) for message in chat)


def _chat(
    vocabulary: Vocabulary, submitted_at: datetime, variables: Mapping[str, object], tools: Sequence[object] | None
) -> ChatTemplate:
    if vocabulary.chat_template is None:
        raise ModelError(
            "This model has no chat template, so it does not know questions from answers. "
            "Use --raw to have the prompt gone on with as a text, or a model made for chat."
        )
    return ChatTemplate(vocabulary.chat_template, vocabulary.special_tokens, submitted_at, variables, tools)


def _opening(vocabulary: Vocabulary, written: str) -> tuple[int, ...]:
    """`written` is what the prompt itself begins with."""
    ids = vocabulary.encode(written).ids
    opening = vocabulary.opening_ids
    return () if tuple(ids[: len(opening)]) == opening else opening


def _outcome(row: Row, found: tuple[int, ...] | RowError, target: tuple[int, ...] | RowError) -> Prompt | Completion:
    if not isinstance(found, RowError) and not found:
        found = RowError("empty", "The prompt is empty. Put some words of your own into it.")
    if isinstance(found, RowError):
        return failure(row, found)
    if isinstance(target, RowError):
        return failure(row, target)
    return Prompt(row.row_id, row.key, found, target=target)
