"""What a person asks for: one validated JobSpec, from flags, from a job file, or from both."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pipeline.errors import SpecError
from pipeline.field_faults import NO_SOURCE, sentence, text_faults
from pipeline.notify import Notify
from pipeline.prompt_fields import NO_PROMPT, PROMPTS, Examples, Messages, Tools, Variables, prompt_fault
from pipeline.question import FIELDS, Question, QuestionList, alone, beside_fault
from pipeline.rows import Constraint
from pipeline.task_fields import COMPARING, DRAWING, SHAPES, TASKS, WRITING, JsonSchema, Labels, NonEmpty, Several


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


#: Fields that change no result: a job may be submitted again with other values of these.
HARMLESS = frozenset({"name", "output", "priority", "dedupe", "keep_order", "reuse_results", "notify"})

#: What a file of results is written as, by its extension.
OUTPUT_FORMATS: dict[str, Literal["csv", "jsonl", "parquet"]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}

#: Below, logits divided by it leave the range of numbers, and there is nothing left to draw.
_LEAST_TEMPERATURE = 0.01

#: In a database's URL, as SQLAlchemy reads it: it may hold a slash.
_PASSWORD = re.compile("://[^:@/]*:[^@]*@")

#: More would leave no room for anything else in the table of jobs.
_LONGEST_NAME = 64


class JobSpec(BaseModel):
    """One job. Field names are the flags' names, and the job file's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: Several = Field(min_length=1)
    model: NonEmpty
    adapter: NonEmpty | None = None
    prompt: NonEmpty | None = None
    template: Literal["plain", "jinja"] = "plain"
    messages: Messages | None = None
    messages_column: NonEmpty | None = None
    tokens_column: NonEmpty | None = None
    examples: Examples = ()
    template_vars: Variables = Field(default_factory=dict)
    tools: Tools | None = None
    sql: NonEmpty | None = None
    name: NonEmpty | None = None
    system: str | None = None
    raw: bool = False
    choices: Labels | None = None
    length_normalize: bool = False
    multi_label: bool = False
    prior_correction: bool = False
    score: NonEmpty | None = None
    embed: Literal["last", "mean"] | None = None
    json_schema: JsonSchema | None = None
    regex: NonEmpty | None = None
    grammar: NonEmpty | None = None
    max_tokens: int = Field(default=256, ge=1)
    stop: Several = ()
    temperature: float = Field(default=0.0, ge=0, le=100)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=100)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    seed: int = 0
    n: int = Field(default=1, ge=1, le=64)
    logprobs: int | None = Field(default=None, ge=0, le=20)
    on_too_long: Literal["error", "head", "tail", "middle", "salient"] = "error"
    cut: NonEmpty | None = None
    normalize: Literal["nfc", "nfkc"] | None = None
    strip_invisible: bool = False
    unescape_html: bool = False
    key: NonEmpty | None = None
    where: NonEmpty | None = None
    sample: Annotated[str, BeforeValidator(_number_as_text)] | None = None
    limit: int | None = Field(default=None, ge=1)
    output: Path | None = None
    trust_remote_code: bool = False
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    deterministic: bool = False
    dedupe: bool = True
    keep_order: bool = False
    reuse_results: bool = False
    priority: int = Field(default=0, ge=-1000, le=1000)
    notify: Notify | None = None
    questions: QuestionList = ()

    @field_validator("questions")
    @classmethod
    def _each_is_a_job(cls, questions: QuestionList, info: ValidationInfo) -> QuestionList:
        """With fields as a job keeps them. What is wrong with the job's own fields is told before."""
        is_whole = info.data.keys() == cls.model_fields.keys() - {"questions"}
        if not questions or not is_whole or all(info.data[name] is None for name in PROMPTS):
            return questions
        names = (*TASKS, *COMPARING, *WRITING)
        if fault := beside_fault(info.data, _given(info.data, names)):
            raise ValueError(fault)
        return tuple(_settled(question, info.data) for question in questions)

    @model_validator(mode="after")
    def _fields_agree(self) -> "JobSpec":
        if self.name is not None and not self.name.isprintable():
            raise ValueError("--name holds a line break or another character that cannot be printed")
        if self.name is not None and (self.name.startswith("-") or len(self.name) > _LONGEST_NAME):
            raise ValueError(f"--name must not begin with - and have {_LONGEST_NAME} characters at most")
        if self.sql is not None and (len(self.inputs) != 1 or "://" not in self.inputs[0]):
            raise ValueError(NO_SOURCE)
        if self.sql is not None and _PASSWORD.search(self.inputs[0]):
            raise ValueError("the URL of the database holds a password, which must not be kept")
        if fault := prompt_fault(dict(self)):
            raise ValueError(fault)
        if self.choices is not None and len(self.choices) < 2:
            raise ValueError("--choices needs two labels or more, such as positive,negative")
        if self.choices is not None and len(set(self.choices)) < len(self.choices):
            raise ValueError("--choices names a label twice")
        if len(tasks := [f"--{name}" for name in TASKS if getattr(self, name) is not None]) > 1:
            raise ValueError(f"{tasks[0]} and {tasks[1]} are two tasks, and a job has one; leave one of them out")
        told = {"logprobs"} if self.score is not None else set()
        if tasks and (flags := _given(dict(self), tuple(name for name in WRITING if name not in told))):
            raise ValueError(f"{flags[0]} has no meaning with {tasks[0]}: nothing is generated; leave it out")
        if len(shapes := _given(dict(self), SHAPES)) > 1:
            raise ValueError(
                f"{shapes[0]} and {shapes[1]} are two shapes, and an answer has one; leave one of them out"
            )
        if self.cut is not None and self.on_too_long == "error":
            raise ValueError("--cut needs --on-too-long, which says how: head, tail, middle or salient")
        if self.output is not None and self.output.suffix.lower() not in OUTPUT_FORMATS:
            raise ValueError(f"--output {self.output.name} must end in one of {', '.join(OUTPUT_FORMATS)}")
        return self

    @model_validator(mode="after")
    def _labels_are_compared_in_one_way(self) -> "JobSpec":
        if self.choices is None and (flags := _given(dict(self), COMPARING)):
            raise ValueError(f"{flags[0]} needs --choices, such as positive,negative, which it compares")
        if self.length_normalize and self.multi_label:
            raise ValueError(
                "--length-normalize has no meaning with --multi-label: each label is a yes or a no of its own; "
                "leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _sample_is_a_size(self) -> "JobSpec":
        if self.sample is not None and self.sample_count is None and self.sample_share is None:
            raise ValueError(f"--sample is a number of rows or a share, such as 1000 or 10%, and not {self.sample}")
        return self

    @property
    def sample_count(self) -> int | None:
        """Rows that are drawn; None where a share is, or all are taken."""
        found = re.fullmatch("[1-9][0-9]{0,17}", self.sample or "")
        return int(found[0]) if found else None

    @property
    def sample_share(self) -> float | None:
        """The probability with which each row is drawn."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", self.sample or "")
        return float(found[1]) / 100 if found and 0 < float(found[1]) <= 100 else None

    @model_validator(mode="after")
    def _sampling_makes_sense(self) -> "JobSpec":
        if self.temperature == 0 and (flags := _given(dict(self), DRAWING)):
            raise ValueError(f"{flags[0]} needs --temperature above 0, such as 0.7; at 0 the likeliest token is taken")
        if self.temperature == 0 and self.n > 1:
            raise ValueError(f"--n {self.n} needs --temperature above 0, such as 0.7; at 0 all samples would be equal")
        if self.reuse_results and self.temperature > 0:
            raise ValueError("--reuse-results has no meaning with --temperature: each row draws an answer of its own")
        if 0 < self.temperature < _LEAST_TEMPERATURE:
            raise ValueError(f"--temperature is 0, which takes the likeliest token, or {_LEAST_TEMPERATURE} and more")
        return self

    @property
    def asked(self) -> tuple["JobSpec", ...]:
        """Of several questions a job for each, which asks nothing else; otherwise this one."""
        job = dict(self)
        return tuple(JobSpec.model_validate(alone(job, question)) for question in self.questions) or (self,)

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are read besides those of the prompt."""
        return () if self.score is None else (self.score,)

    @property
    def constraint(self) -> Constraint | None:
        """What answers are held to while they are written."""
        found = ((shape, getattr(self, shape)) for shape in SHAPES)
        return next((Constraint(shape, text) for shape, text in found if text is not None), None)

    @property
    def writes(self) -> bool:
        """Whether text is generated."""
        return all(getattr(self, name) is None for name in TASKS)

    @property
    def embeds(self) -> bool:
        """Whether vectors are all that is asked for, which models give that cannot write."""
        return all(asked.embed is not None for asked in self.asked)

    @property
    def dedupes(self) -> bool:
        """Whether rows of the same prompt share one answer: where tokens are drawn, each row draws its own."""
        return self.dedupe and self.temperature == 0

    def fingerprint(self, model_digest: str, input_digest: str) -> str:
        """sha256 over all that changes a result: the fields, the model's content and the input's."""
        facts = self.model_dump(mode="json", exclude=set(HARMLESS))
        facts |= {"model_digest": model_digest, "input_digest": input_digest}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def differences(self, other: "JobSpec") -> list[str]:
        """One line for each field in which `other` would give other results."""
        mine, theirs = self._facts(), other._facts()
        return [
            f"{field}: {_short(mine[field])} -> {_short(theirs[field])}"
            for field in mine
            if field in theirs and mine[field] != theirs[field]
        ]

    def _facts(self) -> dict[str, Any]:
        """All that changes a result; each field of a question by itself."""
        facts = self.model_dump(mode="json", exclude=set(HARMLESS))
        facts["questions"] = [question.name for question in self.questions]
        for question, asked in zip(self.questions, self.asked, strict=False):
            own = asked.model_dump(mode="json", include=set(FIELDS)) | {"prompt": question.fields["prompt"]}
            facts |= {f"questions.{question.name}.{field}": own[field] for field in FIELDS}
        return facts


def build_spec(fields: dict[str, Any]) -> JobSpec:
    """Validate; raises SpecError with one sentence a fault, and the nearest name for an unknown field."""
    if unkept := text_faults(fields):
        raise SpecError("\n".join(unkept))
    faults = [] if any(fields.get(name) is not None for name in PROMPTS) else [NO_PROMPT]
    try:
        spec = JobSpec.model_validate(fields)
    except ValidationError as error:
        raise SpecError("\n".join([*_sentences(error), *faults])) from error
    if faults:
        raise SpecError(NO_PROMPT)
    return spec


def _settled(question: Question, job: Mapping[str, Any]) -> Question:
    """Fields that say what would be so anyway are left out."""
    try:
        asked = JobSpec.model_validate(alone(job, question))
    except ValidationError as error:
        raise ValueError(f'question "{question.name}": {" ".join(_sentences(error))}') from error
    own = asked.model_dump(mode="json", include=set(question.fields) - {"prompt"}, exclude_defaults=True)
    return question.model_copy(update={"fields": {"prompt": question.fields.get("prompt", ""), **own}})


def _given(job: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """As flags, those of the fields that are not what they are by themselves."""
    if job["sample"] is not None:  # rows are drawn by it, too
        names = [name for name in names if name != "seed"]
    defaults = JobSpec.model_fields
    return [f"--{name.replace('_', '-')}" for name in names if job[name] != defaults[name].default]


def _sentences(error: ValidationError) -> list[str]:
    return list(dict.fromkeys(sentence(fault, list(JobSpec.model_fields)) for fault in error.errors()))


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
