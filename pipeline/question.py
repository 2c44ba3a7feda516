"""Several questions over one row, as a job names them: each with a text behind the job's prompt, and a task."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, JsonValue

from pipeline.errors import nearest
from pipeline.rows import Completion
from pipeline.task_fields import COMPARING, TASKS, WRITING

#: What a question may say for itself.
FIELDS = ("prompt", *TASKS, *COMPARING, *WRITING)
#: The columns of a result, which are a question's behind its name.
_RESULT = tuple(field.name for field in dataclasses.fields(Completion))


class Question(BaseModel):
    """`fields` are those of a job that asks nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    fields: dict[str, JsonValue]


def _listed(value: object) -> object:
    """By name, as a person writes them, or one after the other, as a job keeps them."""
    if isinstance(value, list | tuple) and all(map(_is_kept, value)):
        return value
    if not isinstance(value, dict):
        raise ValueError("write each under a name of its own, such as `mood: {choices: [good, bad]}`")
    if not value:
        raise ValueError("there are none")
    if unquoted := [name for name in value if isinstance(name, bool)]:
        raise ValueError(f"without quotes, YAML reads the name of one as {json.dumps(unquoted[0])}; write it in quotes")
    if odd := [name for name, fields in value.items() if not isinstance(fields, dict)]:
        raise ValueError(f'question "{odd[0]}" needs fields, such as `prompt: ...` and `choices: [yes, no]`')
    return [{"name": str(name), "fields": fields} for name, fields in value.items()]


def _is_kept(question: object) -> bool:
    if isinstance(question, dict):
        return question.keys() == Question.model_fields.keys()
    return isinstance(question, Question)


def _named_and_filled(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    for question in questions:
        if not question.name.isidentifier():
            raise ValueError(f'"{question.name}" is no name of a question: take letters, digits and _, such as mood')
        if question.name.casefold() in _RESULT:
            raise ValueError(f'a question cannot be named "{question.name}", as results have a column of that name')
        if odd := [field for field in question.fields if field not in FIELDS]:
            raise ValueError(f'question "{question.name}" has no field "{odd[0]}" of its own.{nearest(odd[0], FIELDS)}')
        if not isinstance(question.fields.get("prompt", ""), str):
            raise ValueError(f'the prompt of question "{question.name}" is no text; write it in quotes')
    return questions


def _told_apart(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    """Their columns in the results, too, whoever reads them without regard to case."""
    names = [question.name for question in questions]
    taken = {f"{name}_{column}".casefold(): name for name in names for column in _RESULT}
    for place, name in enumerate(names):
        if name.casefold() in {before.casefold() for before in names[:place]}:
            raise ValueError(f'two questions are named "{name}"')
        if (other := taken.get(name.casefold())) is not None:
            raise ValueError(f'the questions "{other}" and "{name}" have a column of the same name; rename one')
    return questions


QuestionList = Annotated[
    tuple[Question, ...], BeforeValidator(_listed), AfterValidator(_named_and_filled), AfterValidator(_told_apart)
]


def alone(job: Mapping[str, Any], question: Question) -> dict[str, Any]:
    """The fields of a job that asks this and nothing else: its prompt goes on with the question's."""
    own: dict[str, Any] = dict(question.fields)
    text = own.pop("prompt", "")
    if job["messages"] is not None:
        *before, last = job["messages"]
        own["messages"] = (*before, {"role": last.role, "content": last.content + text})
    else:
        own["prompt"] = f"{job['prompt']}{text}"
    return {**job, "questions": (), "sample": None, "seed": 0, **own}


def beside_fault(job: Mapping[str, Any], given: list[str]) -> str | None:
    """What does not go together with questions, for a person; `given` are the job's own fields of a task, as flags."""
    if given:
        return f"{given[0]} is for the whole job, and each question has its own; leave it out, or move it into one"
    for whole, brought in (("messages_column", "chat"), ("tokens_column", "prompt")):
        if job[whole] is not None:
            flag = f"--{whole.replace('_', '-')}"
            return f"they go on with --prompt or messages; {flag} brings each row's own {brought}, which ends it"
    if job["examples"]:
        return "--examples show one answer each, and there are several; write them into the prompt"
    return None
