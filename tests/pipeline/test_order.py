"""Whether sorting pays, told from a look at some rows."""

import io
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from pipeline.ingest import delimited, drawing, lines, parquet
from pipeline.ingest.inputs import resolve
from pipeline.order import foretell_order
from pipeline.spec import build_spec

PAGES = [f"{number} is the number of this page, and what follows is what it says. " * 5 for number in range(500)]
SHARD_ROWS = 32


@pytest.fixture
def foretold(tmp_path):
    """Of a table of these rows, whose page is shown first."""

    def foretell(pages, row_group_size=None, ending="parquet", **fields):
        path = tmp_path / f"rows.{ending}"
        table = pa.table({"page": pages, "number": [f"{row}" for row in range(len(pages))]})
        if ending == "parquet":
            pq.write_table(table, path, row_group_size=row_group_size)
        elif ending == "csv":
            csv.write_csv(table, path)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        asked = {"inputs": str(path), "model": "m", "prompt": "Read: {page} What of {number}?"}
        spec = build_spec(asked | fields)
        return foretell_order(spec, resolve(spec.inputs), SHARD_ROWS)

    return foretell


def test_rows_that_meet_far_apart(foretold):
    order = foretold([PAGES[row % 40] for row in range(120)])
    assert (order.column, order.pays) == ("page", True)
    assert order.kept == pytest.approx(0.02, abs=0.02)  # the instruction
    assert order.sorted == pytest.approx(2 / 3, abs=0.04)


@pytest.mark.parametrize(
    "pages",
    [
        PAGES[:120],
        [PAGES[row // 40] for row in range(120)],
        [PAGES[0]] * 120,
        [f"page {row % 40}" for row in range(120)],
        [None] * 120,
    ],
    ids=["all differ", "sorted already", "the same", "short", "null"],
)
def test_it_does_not_pay(foretold, pages):
    order = foretold(pages)
    assert order is None or not order.pays


@pytest.mark.parametrize("fields", [{}, {"deterministic": True}, {"raw": True, "embed": "mean"}], ids=str)
def test_like_rows_are_computed_once_in_any_order(foretold, fields):
    pages = [PAGES[row % 40] for row in range(120)]
    order = foretold(pages, prompt="{page}", **fields)
    assert order.kept == pytest.approx(order.sorted) == pytest.approx(2 / 3, abs=0.02)
    # Beside them, rows that share a page with others are what counts.
    mixed = foretold([*pages, *pages], prompt="{page} What of {number}?", **fields)
    assert mixed.pays == (not fields)


def test_like_rows_that_are_computed_each_by_itself_share_their_text(foretold):
    assert foretold([PAGES[row % 40] for row in range(120)], prompt="{page}", dedupe=False).pays
    assert not foretold([f"{row % 40:02} is its page" for row in range(120)], prompt="{page}", dedupe=False).pays


def test_what_shares_nothing_gains_nothing(foretold):
    pages = [PAGES[row % 40] for row in range(120)]
    for fields in ({"deterministic": True}, {"raw": True, "embed": "mean"}):
        assert not foretold(pages, **fields).pays


@pytest.mark.parametrize("fields", [{"keep_order": True}, {"limit": 32}, {"sample": "20"}, {"prompt": "Hi"}], ids=str)
def test_there_is_nothing_to_choose(foretold, fields):
    assert foretold([PAGES[row % 40] for row in range(120)], **fields) is None


def test_rows_that_all_render_to_no_text_have_nothing_to_share(foretold):
    assert foretold([""] * 120, prompt="{page}", raw=True) is None


def test_what_fits_in_a_shard_and_what_can_be_read_but_once_are_not_looked_at(foretold):
    assert foretold([PAGES[0], PAGES[1]] * 16) is None
    stream = resolve(["-"], io.BytesIO(b'{"page": "a"}\n' * 100))
    assert foretell_order(build_spec({"inputs": "-", "model": "m", "prompt": "{page}"}), stream, SHARD_ROWS) is None
    assert len([batch for _, batch in stream.batches()]) > 0


@pytest.mark.parametrize("row_group_size", [None, 3000])
def test_in_parquet_they_may_be_far_behind_the_head(foretold, row_group_size):
    """The head, of a thousand rows, shows each page twice at most."""
    order = foretold([PAGES[row * 7 % 499] for row in range(20_000)], row_group_size)
    assert order.kept < 0.05
    assert order.sorted == pytest.approx(1 - 499 / 20_000, abs=0.05)
    assert not foretold([f"{row} {PAGES[0]}" for row in range(20_000)], row_group_size).pays


@pytest.fixture
def glimpse(monkeypatch):
    """Stretches of 128 rows in Parquet; and of lines, a third of the 20,000 rows is read of a table of these tests."""
    monkeypatch.setattr(parquet, "STRETCH_ROWS", 128)
    monkeypatch.setattr(drawing, "_MOST_BYTES", 3 << 20)
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1 << 16)


@pytest.mark.usefixtures("glimpse")
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("kinds", [50, 5000, 10_000, 20_000])
def test_how_often_rows_meet_in_a_table_is_told_from_how_often_they_do_in_few_of_them(foretold, ending, kinds):
    """Of 20,000 rows 1,500 or so are looked at, among which 50 pairs have one of 10,000 pages, more or less."""
    numbers = [row % kinds for row in range(20_000)]
    random.Random(1).shuffle(numbers)
    order = foretold([f"{number} is the number of a page. {PAGES[0]}" for number in numbers], ending=ending)
    assert order.sorted == pytest.approx(1 - kinds / 20_000, abs=0.1)


@pytest.mark.usefixtures("glimpse")
def test_where_pages_of_lines_stay_together_those_behind_are_taken_to_do_so(foretold):
    order = foretold([f"{row // 10} is the number of a page. " + PAGES[0] for row in range(20_000)], ending="csv")
    assert order.kept > 0.8
    assert not order.pays


def test_pages_that_stay_together_all_over_the_table_are_as_they_should_be(foretold):
    pages = [f"{row // 10} is the number of a page. " + PAGES[0] for row in range(20_000)]
    order = foretold(pages, 3000)
    assert order.kept > 0.8
    assert not order.pays


def test_rows_without_a_prompt_and_other_prompts(foretold):
    pages = [None if row % 5 == 0 else PAGES[row % 40] for row in range(120)]
    assert foretold(pages).sorted == pytest.approx(2 / 3, abs=0.05)
    assert foretold(pages, prompt="Of {{ page }}: {{ number }}", template="jinja").pays
    turns = [{"role": "system", "content": "Read {page}"}, {"role": "user", "content": "{number}?"}]
    assert foretold(pages, prompt=None, messages=turns).pays
