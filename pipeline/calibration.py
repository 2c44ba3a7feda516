"""What sharing was found to cost, kept from run to run: a file for each device and model under <home>/calibration."""

import hashlib
import json
import logging
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.costs import Costs, usual_costs
from pipeline.errors import TryAgain
from pipeline.inference.device import device_name
from pipeline.inference.model import LanguageModel
from pipeline.whole_file import write_whole

_LOG = logging.getLogger(__name__)
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """Costs, and what they were measured on."""

    model: str  #: as it was asked for
    identity: str
    device: str
    dtype: str
    kernel: str
    measured: str  #: the day
    costs: Costs

    @classmethod
    def of(cls, model: LanguageModel, costs: Costs, *, name: str, day: str) -> "Calibration":
        dtype = str(model.shape.dtype).removeprefix("torch.")
        return cls(name, model.identity, device_name(model.device), dtype, model.kernel_name, day, costs)

    @property
    def subject(self) -> tuple[str, ...]:
        """What must be the same for the costs to hold."""
        return self.identity, self.device, self.dtype, self.kernel


def read_costs(home: Path, model: LanguageModel) -> Costs:
    """Those measured on this device with this model, or estimates. A damaged file is ignored, with a warning."""
    wanted = Calibration.of(model, usual_costs(model.device.type), name="", day="")
    path = _path(home, wanted)
    kept = _read(path) if path.is_file() else None
    return kept.costs if kept is not None and kept.subject == wanted.subject else wanted.costs


def keep(home: Path, calibration: Calibration) -> Path:
    """Whole or not at all. Raises TryAgain where it cannot be written."""
    path = _path(home, calibration)
    try:
        write_whole(path, json.dumps({"format": _FORMAT, **asdict(calibration)}, indent=2) + "\n")
    except OSError as error:
        raise TryAgain(f"What was measured cannot be kept in {path}: {error.strerror}. Free some space.") from error
    return path


def kept(home: Path) -> Iterator[Calibration]:
    """All that can be read, in no promised order."""
    for path in sorted((home / "calibration").glob("*.json")):
        if (calibration := _read(path)) is not None:
            yield calibration


def _path(home: Path, calibration: Calibration) -> Path:
    digest = hashlib.sha256(json.dumps(calibration.subject).encode()).hexdigest()
    return home / "calibration" / f"{digest[:32]}.json"


def _read(path: Path) -> Calibration | None:
    try:
        fields = json.loads(path.read_text())
        if fields.pop("format") != _FORMAT:
            raise ValueError("another version wrote it")
        costs = {name: float(seconds) for name, seconds in fields.pop("costs").items()}
        if not all(0 <= seconds < math.inf for seconds in costs.values()):
            raise ValueError("a cost is below zero or no number")
        return Calibration(**{name: str(text) for name, text in fields.items()}, costs=Costs(**costs))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        _LOG.warning("The calibration %s is ignored, since it is damaged: %s", path, error)
        return None
