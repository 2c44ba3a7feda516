"""A gauge that has a value for each of a few words."""

from collections.abc import Mapping
from typing import TypeVar

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

_Word = TypeVar("_Word", bound=str)


def labelled(name: str, text: str, label: str, values: Mapping[_Word, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for word, value in values.items():
        family.add_metric([str(word)], value)
    return family
