"""What of a row lies in no column of the input: its id. A sorted shard has it in a column that its schema names."""

import pyarrow as pa

_MARK = b"row_ids"


def with_row_ids(schema: pa.Schema) -> pa.Schema:
    """The same columns behind one for the ids, of a name that none of them has."""
    name = "row_id"
    while name in schema.names:
        name = f"{name}_"
    return pa.schema([pa.field(name, pa.int64(), nullable=False), *schema], metadata={_MARK: name.encode()})


def row_id_column(schema: pa.Schema) -> str | None:
    """None where the ids go on from one row to the next."""
    name = (schema.metadata or {}).get(_MARK)
    return None if name is None else name.decode()
