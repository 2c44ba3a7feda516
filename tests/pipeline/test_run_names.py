from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pipeline.errors import SpecError
from pipeline.run_names import filled, with_output_filled
from pipeline.spec import build_spec

AT = datetime(2027, 3, 28, 2, 5, tzinfo=ZoneInfo("Europe/Berlin"))


def test_a_pattern_is_filled_by_the_clock_of_the_schedule():
    assert filled("{schedule}-{date}-{time}", "night", AT) == "night-2027-03-28-0205"
    assert filled("plain", "{date}", AT) == "plain"
    assert filled("{schedule}", "{date}", AT) == "{date}"


def test_another_field_is_told():
    with pytest.raises(SpecError, match=r'has a field \{dates\}.* Did you mean "date"\?'):
        filled("{dates}", "night", AT)


def test_each_night_has_an_output_of_its_own():
    spec = build_spec({"inputs": "a", "model": "m", "prompt": "p", "output": "/out/{date}.csv"})
    assert with_output_filled(spec, "night", AT).output == Path("/out/2027-03-28.csv")
    assert with_output_filled(build_spec({"inputs": "a", "model": "m", "prompt": "p"}), "night", AT).output is None


def test_a_second_run_of_a_day_writes_over_no_file_of_the_first():
    spec = build_spec({"inputs": "a", "model": "m", "prompt": "p", "output": "/out/{date}.csv"})
    before = [AT - timedelta(days=1), AT - timedelta(hours=1), AT - timedelta(minutes=1)]
    assert with_output_filled(spec, "night", AT, before).output == Path("/out/2027-03-28-3.csv")
    one_file = spec.model_copy(update={"output": Path("/out/{schedule}.csv")})
    assert with_output_filled(one_file, "night", AT, before).output == Path("/out/night.csv")
