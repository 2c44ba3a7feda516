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


def test_a_row_that_does_not_fit_alone_is_for_whoever_reads_it_in_steps():
    capacity, tried = Capacity(100), []

    def step(part):
        tried.append(part.stop - part.start)
        if tried[-1] > 12:
            raise MemoryError
        return part

    def in_steps(place):
        return [place, *capacity.steps(step, 30, most=20)]

    lengths = rows(30, 5, 30)
    found = list(capacity.parts(lengths, lambda part: step(slice(0, sum(map(len, lengths[part])))), in_steps))
    in_three = [slice(0, 7), slice(7, 14), slice(14, 21), slice(21, 28), slice(28, 30)]
    assert found == [[0, *in_three], slice(0, 5), [2, *in_three]]
    assert tried[:4] == [65, 30, 15, 7]


def test_what_is_a_lack_of_memory():
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60)
    assert is_out_of_memory(raised.value)
