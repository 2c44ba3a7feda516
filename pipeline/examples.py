"""Few-shot examples out of a file of any format that an input may have, or YAML, as a job keeps them."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pipeline.errors import InputError, RowError
from pipeline.ingest.inputs import resolve
from pipeline.ingest.values import values_of
from pipeline.job_file import read_yaml
from pipeline.prompt_fields import MOST_EXAMPLES
from pipeline.prompts.nested import json_like


def read_examples(file: str) -> list[dict[str, object]]:
    """By column. One more than a job may have, where there are too many. Raises InputError or SpecError."""
    rows = _listed(Path(file)) if Path(file).suffix.lower() in (".yaml", ".yml") else _table(file)
    found = list(islice(rows, MOST_EXAMPLES + 1))
    try:
        examples = [{name: json_like(name, value) for name, value in row.items()} for row in found]
    except RowError as error:
        raise InputError(f"The examples in {file} cannot be used: {error}") from error
    if not examples:
        raise InputError(f"There are no examples in {file}.")
    return examples


def _table(file: str) -> Iterator[dict[str, object]]:
    for _, batch in resolve([file]).batches():
        columns = [values_of(column) for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield dict(zip(batch.schema.names, values, strict=True))


def _listed(file: Path) -> Iterator[dict[str, object]]:
    found = read_yaml(file, "examples")
    if not isinstance(found, list) or not all(isinstance(example, dict) for example in found):
        raise InputError(f"The examples file {file} must be a list, each with the prompt's columns and an `answer`.")
    for example in found:
        yield {str(name): value for name, value in example.items()}
