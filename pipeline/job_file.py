"""What a person asks for, as a file and from where they stand: fields before they are validated as a JobSpec."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import SpecError

#: A file by a path from where the person stands, in a database's URL.
_RELATIVE_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)([^?]*)(.*)")


class _Loader(yaml.SafeLoader):
    """Of a name that is there twice, as YAML forbids, the usual one would keep the last and say nothing."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set[tuple[str, str]]()
        for name in [name for name, _ in node.value if isinstance(name, yaml.ScalarNode) and name.value != "<<"]:
            if (name.tag, name.value) in seen:
                told = f'"{name.value}" is there twice, and one of them would be lost'
                raise yaml.MarkedYAMLError(problem=told, problem_mark=name.start_mark)
            seen.add((name.tag, name.value))
        return node


def read_job_file(path: Path) -> dict[str, Any]:
    """The fields of a YAML job file, its paths taken from where the file is. Raises SpecError."""
    fields = read_yaml(path, "job")
    if not isinstance(fields, dict):
        raise SpecError(f"The job file {path} must hold fields such as `prompt: ...`, one a line.")
    if "from" in fields and "inputs" not in fields:  # the flag's name, which Python keeps for itself
        fields["inputs"] = fields.pop("from")
    return place({str(name): value for name, value in fields.items()}, path.parent)


def read_yaml(path: Path, what: str) -> object:
    """Raises SpecError that calls it the file of `what`."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - it is a safe one
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"The {what} file {path} cannot be read: {_reason(error)}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"The {what} file {path} is not YAML: {error}") from error


def place(fields: dict[str, Any], base: Path) -> dict[str, Any]:
    """Paths made absolute, so that the job means the same wherever it is resumed; prompts, SQL and tools are read.

    So is what `json_schema` and `grammar` name, where it is no schema written out.
    A model or an adapter is a path where one is there; anything else stays as it is.
    """
    placed = dict(fields)
    if isinstance(prompt := fields.get("prompt"), str):
        placed["prompt"] = _read_text(prompt, base, "prompt")
        if prompt.startswith("@") and prompt.endswith(".j2"):
            placed["template"] = "jinja"
    if isinstance(sql := fields.get("sql"), str):
        placed["sql"] = _read_text(sql, base, "SQL")
    if isinstance(grammar := fields.get("grammar"), str):
        placed["grammar"] = _read_text(f"@{grammar}", base, "grammar")
    if isinstance(schema := fields.get("json_schema"), str):
        placed["json_schema"] = _read_json(schema, base, "JSON schema")
    if isinstance(tools := fields.get("tools"), str):
        placed["tools"] = _read_tools(tools, base)
    if isinstance(variables := fields.get("template_vars"), list | tuple):
        placed["template_vars"] = dict(map(_variable, variables))
    for field in ("model", "adapter"):
        if isinstance(weights := fields.get(field), str) and _path(weights, base).exists():
            placed[field] = _absolute(weights, base)
    for field in ("output", "examples"):
        if isinstance(file := fields.get(field), str):
            placed[field] = _absolute(file, base)
    if isinstance(questions := fields.get("questions"), dict):
        placed["questions"] = {name: _placed_question(name, own, placed, base) for name, own in questions.items()}
    inputs = [one] if isinstance(one := fields.get("inputs"), str) else one
    if isinstance(inputs, list | tuple):
        placed["inputs"] = [_absolute(name, base) if isinstance(name, str) and name else name for name in inputs]
    return placed


def _placed_question(name: object, own: object, job: dict[str, Any], base: Path) -> object:
    """Its text goes on with the job's prompt, and so is of the same kind."""
    if not isinstance(own, dict):
        return own
    placed = place({str(field): value for field, value in own.items()}, base)
    if "template" in placed and "template" not in own:
        if job.get("template") != "jinja":
            raise SpecError(f'The prompt of question "{name}" is a Jinja template, and the job\'s own prompt is not.')
        del placed["template"]
    return placed


def _absolute(name: str, base: Path) -> str:
    if file := _RELATIVE_SQLITE.fullmatch(name):
        return f"{file[1]}{_path(file[2], base).absolute()}{file[3]}"
    return name if name == "-" or "://" in name else str(_path(name, base).absolute())


def _read_text(text: str, base: Path, what: str) -> str:
    """`@FILE` is the file's text less one final newline; anything else is the text itself."""
    if not text.startswith("@"):
        return text
    path = _path(text[1:], base)
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, ValueError) as error:
        raise SpecError(f"The {what} file {_shown(path)} cannot be read: {_reason(error)}.") from error


def _read_json(name: str, base: Path, what: str) -> object:
    text = _read_text(f"@{name}", base, what)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"The {what} file {name} is not JSON: {error}.") from error


def _read_tools(name: str, base: Path) -> object:
    tools = _read_json(name, base, "tools")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise SpecError(f"The tools file {name} must be a list of objects, one for each tool, even of a single one.")
    return tools


def _variable(text: object) -> tuple[str, object]:
    """NAME=JSON."""
    name, _, value = str(text).partition("=")
    try:
        return name.strip(), json.loads(value)
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f'--template-var {text}: give NAME=JSON, such as enable_thinking=false, or language="en" with its quotes.'
        ) from error


def _path(name: str, base: Path) -> Path:
    try:
        return base / Path(name).expanduser()
    except RuntimeError as error:
        raise SpecError(f"{name} names the home directory of a user whom this machine does not know.") from error


def _shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else ascii(str(path))


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    is_content = isinstance(error, UnicodeDecodeError)
    return "it is not UTF-8 text" if is_content else "no file's name can have all of these characters"
