import gguf
import numpy as np
import pytest
from transformers.integrations.ggml import _gguf_parse_value

from pipeline.inference.gguf_file import quick_reading


@pytest.fixture
def file(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_string("name", "a model 🎉")
    writer.add_array("words", ["", "a", "日本", "x" * 300])
    writer.add_array("numbers", [1, -2, 1 << 20])
    writer.add_array("fractions", [0.5, -0.25])
    writer.add_array("flags", [True, False])
    writer.add_array("lists", [[1, 2], [3, 4]])
    writer.add_uint64("count", 1 << 40)
    writer.add_tensor("output.weight", np.arange(64, dtype=np.float32).reshape(2, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "model.gguf"


def quickly(path):
    with quick_reading():
        return gguf.GGUFReader(path)


def test_the_fields_and_tensors_are_those_of_the_package(file):
    usual, quick = gguf.GGUFReader(file), quickly(file)
    assert type(quick) is not type(usual)
    assert list(quick.fields) == list(usual.fields)
    for name, field in usual.fields.items():
        found = quick.fields[name]
        assert (found.offset, found.types, found.data) == (field.offset, field.types, field.data)
        assert [bytes(part) for part in found.parts] == [bytes(part) for part in field.parts]
    (tensor,), (expected,) = quick.tensors, usual.tensors
    assert (tensor.name, tensor.tensor_type) == (expected.name, expected.tensor_type)
    assert (tensor.data == expected.data).all()


def test_transformers_reads_the_words_of_a_list(file):
    field = quickly(file).fields["words"]
    assert [_gguf_parse_value(field.parts[place], field.types) for place in field.data] == ["", "a", "日本", "x" * 300]


def test_afterwards_the_package_is_as_it_was():
    usual = gguf.GGUFReader, gguf.get_tensor_name_map
    with pytest.raises(KeyError), quick_reading():
        raise KeyError
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == usual
