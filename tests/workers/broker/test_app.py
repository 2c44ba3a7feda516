import base64
import json

import pytest

from pipeline.errors import SpecError
from workers.broker.app import ANSWER, ENCODE, make_app
from workers.broker.doorbell import Doorbell


def test_a_message_shows_nothing_of_what_it_carries(server):
    Doorbell(server.url).ring_batch("night", 7, b"somebody's rows")
    message = json.loads(server.client().lindex("pipeline:gpu", 0))
    body = base64.b64decode(message.pop("body"))
    assert b"somebody's rows" in body
    assert message["headers"]["task"] == ANSWER
    assert (message["headers"]["argsrepr"], message["headers"]["kwargsrepr"]) == ("-", "-")
    assert "somebody" not in json.dumps(message)
    assert message["content-type"] == "application/x-msgpack"


def test_the_two_stages_have_queues_of_their_own(server):
    bell = Doorbell(server.url)
    bell.ring_shard("night", 0)
    assert (bell.depth()["tokenizer"], bell.depth()["gpu"]) == (1, 0)
    assert json.loads(server.client().lindex("pipeline:tokenizer", 0))["headers"]["task"] == ENCODE


@pytest.mark.parametrize("variable", ["CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"])
def test_a_variable_of_celerys_own_does_not_lead_elsewhere(variable, monkeypatch):
    monkeypatch.setenv(variable, "redis://elsewhere")
    with pytest.raises(SpecError, match="CELERY_BROKER_URL or one like it"):
        make_app("redis://here")
