"""Stage 2, second step: the model's chat template, rendered as transformers' apply_chat_template renders it."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pipeline.errors import ModelError, SpecError, nearest
from pipeline.prompts.namespaces import TemplateDict, TemplateNamespace


class ChatTemplate:
    """One model's chat template. It is untrusted code: it runs in jinja's sandbox and reads no clock."""

    def __init__(
        self,
        source: str,
        special_tokens: dict[str, str],
        submitted_at: datetime,
        variables: Mapping[str, object] = MappingProxyType({}),
        tools: Sequence[object] | None = None,
    ) -> None:
        """`special_tokens` by name, such as bos_token; `submitted_at` is what the template's clock shows.

        Raises ModelError, or SpecError for a variable that takes a special token's place.
        """
        if taken := [name for name in variables if name in special_tokens]:
            raise SpecError(f"--template-var {taken[0]} would change a special token of the model. Leave it out.")
        environment = _environment(submitted_at)
        tools_or_none = None if tools is None else list(tools)
        self._given = {
            "documents": None,
            **variables,
            **special_tokens,
            "tools": tools_or_none,
            "add_generation_prompt": True,
        }
        try:
            self._template = environment.from_string(source)
            self.constants = _constants(environment, source)
        except TemplateSyntaxError as error:
            raise ModelError(
                f"The model's chat template is not valid (line {error.lineno}: {error.message}). "
                "Use --raw or another model."
            ) from error

    def render(self, messages: Sequence[Mapping[str, object]]) -> str:
        """The chat up to where the answer begins. Raises SpecError or ModelError."""
        try:
            return self._template.render({**self._given, "messages": messages})
        except _RefusalError as error:
            raise SpecError(
                f"The model's chat template refuses these messages: {error.message}. Change them, or use --raw."
            ) from error
        except Exception as error:  # a template can raise whatever Python can
            kind = "does what a template may not do" if isinstance(error, SecurityError) else "fails"
            raise ModelError(
                f"The model's chat template {kind} ({type(error).__name__}: {error}). Use --raw or another model."
            ) from error


def unheeded(source: str, variables: Collection[str], *, tools: bool) -> str | None:
    """What a person gives to a chat template that never asks for it, in a sentence."""
    names = _environment(datetime.now().astimezone()).parse(source).find_all(nodes.Name)
    asked = {node.name for node in names if node.ctx == "load"}
    if tools and "tools" not in asked:
        return "The model's chat template takes no tools, so that no prompt tells of them. Leave --tools out."
    if unknown := [name for name in variables if name not in asked]:
        return (
            f"The model's chat template asks for no variable {unknown[0]}, so that --template-var changes nothing."
            f"{nearest(unknown[0], sorted(asked))}"
        )
    return None


class _RefusalError(TemplateError):
    """What a template's own raise_exception raises."""


class _GenerationTag(Extension):
    """`{% generation %}` marks what a model is trained on; here its body is rendered as if the tag were not there."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own declaration

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Any) -> str:
        return str(caller())


def _environment(submitted_at: datetime) -> Environment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = submitted_at.strftime
    environment.globals["dict"] = TemplateDict()
    environment.globals["namespace"] = TemplateNamespace
    return environment


def _raise_exception(message: object) -> None:
    raise _RefusalError(str(message))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _constants(environment: Environment, source: str) -> tuple[str, ...]:
    """The strings that the template's code names, in order: what it may look for in a message."""
    constants = environment.parse(source).find_all(nodes.Const)
    return tuple(dict.fromkeys(node.value for node in constants if isinstance(node.value, str) and node.value))
