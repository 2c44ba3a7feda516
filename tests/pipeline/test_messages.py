import random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.costs import usual_costs
from pipeline.messages import Payload, pack, unpack
from pipeline.prefix_tree import with_cuts
from pipeline.rows import Choose, Prompt, Twin

ids = st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 2**16 - 1), max_size=12).map(tuple)


twin = st.builds(Twin, st.integers(0, 2**63), st.text("k0 é"), st.integers(0, 2**32 - 1))


@st.composite
def prompt(draw: st.DrawFn) -> Prompt:
    own_ids = draw(ids.filter(bool))
    cuts = draw(st.sets(st.integers(1, len(own_ids)), max_size=3))
    cut_tokens = draw(st.just(0) | st.integers(1, 2**32 - 1))
    key = draw(st.text("r0 é\n\0😀"))
    twins = tuple(draw(st.lists(twin, max_size=2)))
    return Prompt(draw(st.integers(0, 2**63)), key, own_ids, tuple(sorted(cuts)), cut_tokens, draw(ids), twins)


prompts = st.lists(prompt(), max_size=8).map(tuple)


@given(ids, prompts)
def test_what_is_packed_is_unpacked(prefix: tuple[int, ...], rows: tuple[Prompt, ...]) -> None:
    assert unpack(pack(prefix, rows)) == Payload(prefix, rows)


@given(prompts, st.randoms(use_true_random=False))
def test_a_message_of_which_any_byte_is_another_is_refused(rows: tuple[Prompt, ...], chance: random.Random) -> None:
    message = bytearray(pack((1, 2, 3), rows))
    message[chance.randrange(len(message))] ^= chance.randrange(1, 256)
    with pytest.raises(ValueError, match="digest"):
        unpack(bytes(message))


@given(prompts, st.data())
def test_a_message_that_is_cut_or_goes_on_is_refused(rows: tuple[Prompt, ...], data: st.DataObject) -> None:
    message = pack((1, 2, 3), rows)
    with pytest.raises(ValueError, match="digest"):
        unpack(message[: data.draw(st.integers(0, len(message) - 1))])
    with pytest.raises(ValueError, match="digest"):
        unpack(message + b"\0")


@given(st.binary())
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="digest"):
        unpack(message)


@pytest.mark.parametrize(
    "content", [{"format": 1, "something": "old"}, {"format": 2, "something": "new"}, {}, [1], None]
)
def test_a_message_of_another_version_is_refused(content: object, monkeypatch: pytest.MonkeyPatch) -> None:
    body = msgpack.packb(content)
    monkeypatch.setattr("pipeline.messages._digest", lambda _: b"d" * 16)
    with pytest.raises(ValueError, match="another version of this program packed it"):
        unpack(b"d" * 16 + body)


def test_tokens_of_a_usual_vocabulary_take_two_bytes_each() -> None:
    numbers = random.Random(0)
    rows = [Prompt(n, f"row {n}", tuple(numbers.randrange(2**16) for _ in range(512))) for n in range(64)]
    assert 64 * 512 * 2 < len(pack((), rows)) < 70 << 10
    large = [Prompt(n, "", (2**16,) * 512) for n in range(64)]
    assert len(pack((), large)) > 64 * 512 * 4


def test_what_is_to_be_scored_travels_behind_its_prompt() -> None:
    rows = (Prompt(0, "a", (1, 2, 3), (2,), target=(4, 5)), Prompt(1, "b", (1, 2, 6), (2,), target=(7,)))
    assert unpack(pack((9,), rows)) == Payload((9,), rows)


def test_a_document_that_rows_share_is_sent_once() -> None:
    rows = [Prompt(n, str(n), (*range(1000), n, n + 1)) for n in range(50)]
    shared = with_cuts(rows, usual_costs("cpu"), Choose(("a", "b"), ((1,), (2,))), 50)
    assert all(prompt.cuts for prompt in shared)
    message = pack((5,) * 100, shared)
    assert len(message) < 2 * (1000 + 100 + 50 * 2) + 50 * 40
    assert unpack(message) == Payload((5,) * 100, tuple(shared))
