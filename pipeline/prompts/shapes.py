"""Stage 2, first step: what a person asked for, as the shape of each row's prompt. Known before a tokenizer is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipeline.errors import RowError, SpecError
from pipeline.prompt_fields import Example
from pipeline.prompts.conversation import Conversation, Shape, Turn
from pipeline.prompts.jinja_template import JinjaTemplate
from pipeline.prompts.messages_column import MessagesColumn
from pipeline.prompts.template import Field, Literal, Template
from pipeline.prompts.tokens_column import TokensColumn
from pipeline.rows import Row
from pipeline.spec import JobSpec

#: Behind an example in raw mode.
_BETWEEN = "\n\n"

_ANSWER = Template((Field("answer"),))


def shape_of(spec: JobSpec) -> Shape:
    """Raises SpecError."""
    if spec.messages is not None:
        return Conversation(tuple(Turn(each.role, Template.parse(each.content)) for each in spec.messages))
    if spec.messages_column is not None:
        return MessagesColumn(spec.messages_column, spec.system)
    if spec.tokens_column is not None:
        return TokensColumn(spec.tokens_column)
    template = (JinjaTemplate if spec.template == "jinja" else Template).parse(str(spec.prompt))
    examples = list(_examples(template, spec.examples))
    if spec.raw:
        shown = "".join(f"{prompt}{_joiner(prompt)}{answer}{_BETWEEN}" for prompt, answer in examples)
        return Conversation((*([Turn("user", _fixed(shown))] if shown else []), Turn("user", template)))
    turns = [] if spec.system is None else [Turn("system", _fixed(spec.system))]
    for prompt, answer in examples:
        turns += [Turn("user", _fixed(prompt)), Turn("assistant", _fixed(answer))]
    return Conversation((*turns, Turn("user", template)))


def columns_of(spec: JobSpec) -> tuple[str, ...]:
    """All that are read, whichever question does. Raises SpecError."""
    found: dict[str, None] = {}
    for place, asked in enumerate(spec.asked):
        with told_of(spec, place):
            found |= dict.fromkeys((*shape_of(asked).columns, *asked.beside))
    return tuple(found)


@contextmanager
def told_of(spec: JobSpec, place: int) -> Iterator[None]:
    """What is wrong in here is said of the question at this place, where there are several."""
    try:
        yield
    except SpecError as error:
        if not spec.questions:
            raise
        raise SpecError(f'Question "{spec.questions[place].name}": {error}') from error


def _fixed(text: str) -> Template:
    return Template((Literal(text),) if text else ())


def _joiner(prompt: str) -> str:
    return "" if prompt[-1:].isspace() else " "


def _examples(template: Template | JinjaTemplate, examples: Sequence[Example]) -> Iterator[tuple[str, str]]:
    """Each as its prompt and its answer."""
    for number, example in enumerate(examples, 1):
        try:
            row = Row(0, "", example)
            answer, prompt = (each.content(each.values(row)).text for each in (_ANSWER, template))
        except RowError as error:
            raise SpecError(f"Example {number} cannot be used: {str(error).replace(' in this row', '')}") from error
        if not answer:
            raise SpecError(f"Example {number} cannot be used: its answer is empty.")
        yield prompt, answer
