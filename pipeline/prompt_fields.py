"""The fields of a job that say what its prompts are made of, and which of them go together. Imports nothing of ours."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

#: One of these a job must have, and only one.
PROMPTS = ("prompt", "messages", "messages_column", "tokens_column")
NO_PROMPT = "The job has no prompt; give --prompt, or `prompt:` in the job file."

#: What the chat templates of all models are given by us.
_OURS = frozenset({"messages", "tools", "add_generation_prompt"})
MOST_EXAMPLES = 1000

Example = dict[str, JsonValue]  #: by column, and under `answer` what is answered


class ChatMessage(BaseModel):
    """One of a job's own: its content may hold {column} placeholders."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: str = Field(min_length=1)


def _end_with_the_user(messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
    if not messages:
        raise ValueError("there are none")
    if messages[-1].role != "user":
        raise ValueError(f"the last message is of the role {messages[-1].role}, and must be the user's")
    return messages


def _answered(examples: tuple[Example, ...]) -> tuple[Example, ...]:
    if len(examples) > MOST_EXAMPLES:
        raise ValueError(f"there are more than {MOST_EXAMPLES:,}, and every prompt begins with all of them")
    if bare := [number for number, example in enumerate(examples, 1) if "answer" not in example]:
        raise ValueError(f"example {bare[0]} has no `answer`, which is what the model would be shown as its own")
    return examples


def _free_names(variables: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name in variables:
        if name in _OURS or not name.isidentifier():
            raise ValueError(f'a chat template has no variable "{name}" that a job may set')
    return variables


Messages = Annotated[tuple[ChatMessage, ...], AfterValidator(_end_with_the_user)]
Examples = Annotated[tuple[Example, ...], AfterValidator(_answered)]
Variables = Annotated[dict[str, JsonValue], AfterValidator(_free_names)]
Tools = tuple[dict[str, JsonValue], ...]


def prompt_fault(job: Mapping[str, Any]) -> str | None:
    """What does not go together, for a person; None where all does."""
    given = [name for name in PROMPTS if job[name] is not None]
    if len(given) > 1:
        return f"{_flag(given[0])} and {_flag(given[1])} are two prompts, and a job has one; leave one of them out"
    own = next((name for name in given if name != "prompt"), None)
    whole_chat = own if own != "tokens_column" else None
    if own == "tokens_column" and not job["raw"]:
        return "--tokens-column holds all that the model is to read, without a chat template; say so by --raw"
    if job["raw"] and job["system"] is not None:
        return "--system needs a chat template; with --raw, write it into the prompt"
    needs_chat = [*([whole_chat] if whole_chat else []), *(name for name in ("template_vars", "tools") if job[name])]
    if job["raw"] and needs_chat:
        return f"{_flag(needs_chat[0])} needs a chat template, which --raw does without; leave one of them out"
    if own and job["examples"]:
        return f"--examples needs --prompt, which each of them fills; {_flag(own)} has all of it"
    if job["messages"] is not None and job["system"] is not None:
        return "--system and messages are two beginnings; write it into messages, under the role system"
    if own in ("messages_column", "tokens_column") and job["on_too_long"] != "error":
        return f"--on-too-long cuts a column of the prompt, and with {_flag(own)} there is none"
    if own in ("messages_column", "tokens_column") and job["prior_correction"]:
        return f"--prior-correction writes N/A into the columns of the prompt, and with {_flag(own)} there are none"
    cleaning = [name for name in ("normalize", "strip_invisible", "unescape_html") if job[name]]
    if own == "tokens_column" and job["score"] is None and cleaning:
        return f"{_flag(cleaning[0])} changes text, and --tokens-column holds token ids; leave one of them out"
    return None


def _flag(field: str) -> str:
    """As a person gives it: messages only in a job file."""
    return {"messages": "messages", "template_vars": "--template-var"}.get(field, f"--{field.replace('_', '-')}")
