import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.calibration import Calibration, keep, kept, read_costs
from pipeline.costs import Costs, usual_costs
from pipeline.errors import TryAgain
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.loading import load_model

COSTS = Costs(token_s=0.001, key_s=1e-5, level_s=0.02, reader_s=1e-4)


@pytest.fixture(scope="module")
def model(tiny_model):
    return replace(load_model(resolve_checkpoint(str(tiny_model)), "cpu"), identity="these weights")


@pytest.fixture
def calibration(model):
    return Calibration.of(model, COSTS, name="tiny", day="2026-11-29")


def test_what_is_kept_is_read(tmp_path, model, calibration):
    path = keep(tmp_path, calibration)
    assert read_costs(tmp_path, model) == COSTS
    assert list(kept(tmp_path)) == [calibration]
    assert [file.name for file in (tmp_path / "calibration").iterdir()] == [path.name]


def test_the_newest_counts(tmp_path, model, calibration):
    keep(tmp_path, calibration)
    keep(tmp_path, replace(calibration, costs=replace(COSTS, level_s=1.0)))
    assert read_costs(tmp_path, model).level_s == 1.0


def test_two_processes_that_keep_at_once_do_not_meet(tmp_path, model, calibration, monkeypatch):
    replaced = Path.replace

    def replace_late(unfinished, path):
        monkeypatch.setattr(Path, "replace", replaced)
        keep(tmp_path, replace(calibration, costs=replace(COSTS, level_s=1.0)))
        return replaced(unfinished, path)

    monkeypatch.setattr(Path, "replace", replace_late)
    path = keep(tmp_path, calibration)
    assert read_costs(tmp_path, model) == COSTS
    assert [file.name for file in (tmp_path / "calibration").iterdir()] == [path.name]


def test_without_a_calibration_costs_are_estimates(tmp_path, model, calibration):
    assert read_costs(tmp_path, model) == usual_costs("cpu")
    assert list(kept(tmp_path)) == []
    keep(tmp_path, calibration)
    for other in (
        replace(model, identity="other weights"),
        replace(model, kernel_name="plain reference"),
    ):
        assert read_costs(tmp_path, other) == usual_costs("cpu")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace("0.02", "-0.02"),
        lambda text: text.replace("0.02", "NaN"),
        lambda text: text.replace("0.02", "Infinity"),
        lambda text: text.replace("0.02", "null"),
        lambda text: text.replace('"level_s"', '"levels"'),
        lambda text: text.replace('"measured"', '"when"'),
    ],
    ids=["cut off", "empty", "a list", "of another format", "below zero", "nan", "endless", "null", "cost", "field"],
)
def test_a_damaged_file_is_ignored_with_a_warning(tmp_path, model, calibration, damage, caplog):
    path = keep(tmp_path, calibration)
    path.write_text(damage(path.read_text()))
    assert read_costs(tmp_path, model) == usual_costs("cpu")
    assert f"The calibration {path} is ignored, since it is damaged: " in caplog.text
    assert list(kept(tmp_path)) == []


def test_a_file_of_another_model_under_this_ones_name_is_not_used(tmp_path, model, calibration):
    path = keep(tmp_path, calibration)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"identity": "other weights"}))
    assert read_costs(tmp_path, model) == usual_costs("cpu")


def test_a_place_that_cannot_be_written_to_is_told(tmp_path, calibration):
    (tmp_path / "calibration").touch()
    with pytest.raises(TryAgain, match=r"What was measured cannot be kept in .*calibration.*: File exists\."):
        keep(tmp_path, calibration)
