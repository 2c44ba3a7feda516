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
    places = _places(schema, names)
    for name in columns_of(where):
        if not any(name == there or name.startswith(f"{there}.") for there in places):
            known = list(dict.fromkeys([*names, *schema.names]))
            raise SpecError(
                f'--where asks of a column "{name}" that is not there.{nearest(name, known)} There are: '
                f"{', '.join(known)}.{hint}"
            )
    try:
        condition = Condition.parse(where, pa.schema([schema.field(at).with_name(name) for name, at in places.items()]))
    except InputError as error:
        raise SpecError(str(error)) from error

    def chosen(table: pa.Table) -> pa.Table:
        asked = table.select(list(places.values())).rename_columns(list(places))
        masks = [condition.fulfilled(batch) for batch in asked.combine_chunks().to_batches()]
        return table.filter(pa.chunked_array(masks, pa.bool_()))

    return chosen


def _places(schema: pa.Schema, names: Collection[str]) -> dict[str, int]:
    """Where in a table is what such a name means."""
    places: dict[str, int] = {}
    for at, field in enumerate(schema):
        if own := (field.metadata or {}).get(b"name"):
            places[own.decode()] = at
        elif field.name in names:
            places[f"input.{field.name}"] = at
        else:
            places |= {field.name: at, f"input.{field.name}": at}
    return places
