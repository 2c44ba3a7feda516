from sqlalchemy.dialects import sqlite

from pipeline.store.schema import RowIds

DIALECT = sqlite.dialect()


def test_row_ids_are_little_endian_64_bit():
    assert RowIds().process_bind_param((1, 2**40), DIALECT) == bytes.fromhex("01000000000000000000000000010000")


def test_row_ids_come_back():
    for row_ids in [(), (0,), (7, 3, 2**64 - 1)]:
        stored = RowIds().process_bind_param(row_ids, DIALECT)
        assert RowIds().process_result_value(stored, DIALECT) == row_ids
