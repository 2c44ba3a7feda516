from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pipeline.ingest.condition import Condition
from pipeline.ingest.taking import Positioned, Taking

ROWS = 4000


def pieces(size: int) -> list[Positioned]:
    """Numbers from 0, so that a row's value is its place."""
    table = pa.RecordBatch.from_pydict({"n": list(range(ROWS))})
    return [(start, table.slice(start, size)) for start in range(0, ROWS, size)]


def taken(taking: Taking, size: int = 700) -> list[int]:
    highest = taking.bound(iter(pieces(size)))
    return [row for at, batch in pieces(size) for row in taking.rows(batch, at, highest).column("n").to_pylist()]


def test_a_share_is_drawn_whatever_the_batches_are() -> None:
    found = taken(Taking(share=0.1))
    assert 300 < len(found) < 500
    assert found == taken(Taking(share=0.1), size=1) == sorted(found)
    # Of a smaller share each is also of a larger one.
    assert set(taken(Taking(share=0.01))) < set(found) < set(taken(Taking(share=0.5)))
    assert taken(Taking(share=1.0)) == list(range(ROWS))


def test_another_seed_draws_others() -> None:
    one, other = (set(taken(Taking(share=0.5, seed=seed))) for seed in (0, -1))
    assert 0.4 < len(one & other) / len(one) < 0.6


@pytest.mark.parametrize("count", [1, 5, 300, ROWS])
def test_a_count_is_met_to_the_row(count: int) -> None:
    found = taken(Taking(count=count))
    assert len(found) == count
    assert found == taken(Taking(count=count), size=13) == sorted(found)
    assert set(found) <= set(taken(Taking(count=min(ROWS, count + 1))))


def test_what_is_kept_is_put_together_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []
    join = np.concatenate

    def counted(arrays: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
        moved.append(sum(map(len, arrays)))
        return join(arrays)

    monkeypatch.setattr(np, "concatenate", counted)
    assert len(taken(Taking(count=1000), size=10)) == 1000
    assert sum(moved) < 3 * ROWS  # with each batch, it would be hundreds of times the input


def test_no_more_are_drawn_than_there_are() -> None:
    assert taken(Taking(count=ROWS + 1)) == list(range(ROWS))


def test_no_part_of_the_input_is_preferred() -> None:
    found = taken(Taking(count=1000))
    assert all(200 < sum(start <= row < start + 1000 for row in found) < 300 for start in range(0, ROWS, 1000))


def test_a_count_is_of_those_that_fulfil_the_condition() -> None:
    condition = Condition.parse("n >= 3990", pieces(1)[0][1].schema)
    assert taken(Taking(condition)) == list(range(3990, ROWS))
    found = taken(Taking(condition, count=4))
    assert len(found) == 4
    assert min(found) >= 3990
    assert taken(Taking(condition, count=100)) == list(range(3990, ROWS))
