"""What a GPU worker tells of its device at its start."""

import json
import socket

import pytest

from pipeline.errors import ModelError
from pipeline.store.records import Role, WorkerState
from pipeline.store.registry import Registry
from workers.gpu import tell_device


@pytest.fixture
def registry(desk) -> Registry:
    return Registry(desk.database)


def entered(registry, device, host=None) -> str:
    return registry.enter(Role.GPU, host or socket.gethostname(), 1, device)


def test_a_device_that_it_cannot_use_is_told_of_once_in_the_words_in_which_it_was_asked_for(registry):
    for asked_by in ("PIPELINE_DEVICE", "--device"):
        with pytest.raises(ModelError):
            tell_device(registry, entered(registry, "cuda:77"), "cuda:77", asked_by)
    (record,) = registry.all()
    assert record.state is WorkerState.FAILED
    assert record.note.startswith("--device is cuda:77, which cannot be used here. Set it to c")


def test_what_failed_before_is_forgotten_where_one_can_use_the_device_now(registry):
    failed, elsewhere, besides = (
        entered(registry, device, host) for device, host in (("cpu", None), ("cpu", "other"), ("cuda:1", None))
    )
    for worker_id in (failed, elsewhere, besides):
        registry.fail(worker_id, "It cannot be used.")
    now = entered(registry, "cpu")
    assert len(registry.all()) == 4
    tell_device(registry, now, "cpu", "--device")
    assert {record.id for record in registry.all()} == {now, elsewhere, besides}
    assert {json.loads(record.facts)["device_type"] for record in registry.all() if record.id == now} == {"cpu"}
