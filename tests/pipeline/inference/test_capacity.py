import pytest
import torch

from pipeline.inference.capacity import Capacity, is_out_of_memory


def rows(*lengths):
    return [(0,) * length for length in lengths]


def test_consecutive_rows_share_a_forward_up_to_its_tokens():
    assert list(Capacity(10).parts(rows(3, 4, 3, 1, 12, 2), lambda part: part)) == [
        slice(0, 3), slice(3, 4), slice(4, 5), slice(5, 6),
    ]  # fmt: skip
    assert list(Capacity(10).parts([], lambda part: part)) == []


def test_what_does_not_fit_is_halved_and_remembered():
    capacity, tried = Capacity(100), []

    def run(part):
        tried.append(sum([10] * (part.stop - part.start)))
        if tried[-1] > 30:
            raise torch.OutOfMemoryError
        return part

    assert list(capacity.parts(rows(*[10] * 7), run)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert tried == [70, 30, 30, 10]
    list(capacity.parts(rows(*[10] * 7), run))
    assert max(tried[4:]) == 30


def test_a_row_that_does_not_fit_alone_raises():
    def run(_):
        raise MemoryError

    with pytest.raises(MemoryError):
        list(Capacity(100).parts(rows(10, 10), run))


def test_what_is_a_lack_of_memory():
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60)
    assert is_out_of_memory(raised.value)
