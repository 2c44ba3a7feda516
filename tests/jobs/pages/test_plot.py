from xml.etree.ElementTree import fromstring

import pytest

from jobs.pages.plot import Series, bars, ceiling, columns, number


@pytest.mark.parametrize(
    ("value", "end"), [(0, 1), (0.03, 0.04), (1, 1), (1.01, 2), (59, 60), (61, 80), (81, 100), (1234, 2000)]
)
def test_an_axis_ends_at_a_round_number_that_is_not_below(value, end):
    assert ceiling(value) == pytest.approx(end)


@pytest.mark.parametrize(
    ("value", "told"), [(0, "0"), (0.02501, "0.025"), (12.5, "12.5"), (2.0, "2"), (99.96, "100"), (1234.5, "1,234")]
)
def test_numbers_are_short(value, told):
    assert number(value) == told


def test_columns_are_as_high_as_their_values_and_stand_on_each_other():
    svg = fromstring(columns("T", ["0", "1", "2"], [Series("a", [1, 2], 0), Series("b", [3, 0], 1)], "x", "y"))
    boxes = {
        (box.get("class"), box.find("title").text.split(":")[0]): (float(box.get("y")), float(box.get("height")))
        for box in svg.iter("rect")
    }
    assert len(boxes) == 3, "what is 0 has none"
    (a, a_high), (b, b_high) = boxes["colour0", "0 to 1"], boxes["colour1", "0 to 1"]
    assert boxes["colour0", "1 to 2"][1] == pytest.approx(2 * a_high)
    assert b_high == pytest.approx(3 * a_high)
    assert b + b_high == pytest.approx(a, abs=0.11)


def test_labels_and_hints_are_escaped():
    drawn = bars('"T"', ["<b>&"], [Series("rows", [2])], ["<i>"])
    assert "<b>" not in drawn
    assert [text.text for text in fromstring(drawn).iter("text")] == ["<b>&", "<i>"]
