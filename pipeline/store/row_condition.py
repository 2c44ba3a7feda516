"""Stage 7: what `--where` says of the rows of an export, where it asks of more than the table of results has."""

from collections.abc import Callable, Collection

import pyarrow as pa

from pipeline.errors import InputError, SpecError, nearest
from pipeline.ingest.condition import Condition
from pipeline.ingest.expression import columns_of

Choose = Callable[[pa.Table], pa.Table]


def chosen_by(where: str, schema: pa.Schema, names: Collection[str], hint: str) -> Choose:
    """The rows of such tables of which it is true. In `schema`, columns of results are marked with their own `name`;
    `names` are all that there may be. One that the input has too is the result's, and `input.NAME` the input's.

    Raises SpecError for a column that is in neither, with the hint, or a comparison without a meaning.
    """
    asked = pa.schema([field.with_name(_name(field, names)) for field in schema])
    for name in columns_of(where):
        if not any(name == there or name.startswith(f"{there}.") for there in asked.names):
            raise SpecError(
                f'--where asks of a column "{name}" that is not there.{nearest(name, [*names, *asked.names])} '
                f"Those of the results are: {', '.join(names)}. {hint}"
            )
    try:
        condition = Condition.parse(where, asked)
    except InputError as error:
        raise SpecError(str(error)) from error

    def chosen(table: pa.Table) -> pa.Table:
        batches = table.rename_columns(asked.names).combine_chunks().to_batches()
        return table.filter(pa.chunked_array(map(condition.fulfilled, batches), pa.bool_()))

    return chosen


def _name(field: pa.Field, names: Collection[str]) -> str:
    if own := (field.metadata or {}).get(b"name"):
        return str(own.decode())
    return f"input.{field.name}" if field.name in names else str(field.name)
