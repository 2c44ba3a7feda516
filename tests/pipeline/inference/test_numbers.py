import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.inference.numbers import Numbers, row_numbers

ROWS = [(7, 0), (7, 1), (3, 0)]
CPU = torch.device("cpu")
#: Who goes on together and for how many steps, or who passes how many numbers over.
TURNS = st.lists(
    st.tuples(st.lists(st.sampled_from(range(3)), min_size=1, unique=True), st.integers(1, 70))
    | st.tuples(st.sampled_from(range(3)), st.integers(0, 70)),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(TURNS)
def test_each_row_gets_its_own_numbers_in_their_order_whoever_it_goes_on_beside(turns):
    numbers, plain = Numbers(5, ROWS), [row_numbers(5, *row) for row in ROWS]
    for turn, count in turns:
        if isinstance(turn, int):
            numbers.skip(turn, count)
            for _ in range(count):
                plain[turn].random()
            continue
        for _ in range(count):
            assert numbers.next(turn, CPU).tolist() == [plain[place].random() for place in turn]
