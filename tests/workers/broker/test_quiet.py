import logging

import pytest
from celery.worker.consumer import consumer

from workers.broker.quiet import Quiet


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lost():
    """What was told of the connection."""
    return []


@pytest.fixture
def says(clock, lost):
    """What is left of a message that is logged; None where it is dropped."""
    quiet = Quiet(lost.append, clock)

    def say(message, *arguments):
        record = logging.LogRecord("name", logging.ERROR, "path", 1, message, arguments, (None, ValueError("x"), None))
        return record.getMessage() if quiet.filter(record) else None

    return say


def test_a_broker_that_is_away_is_told_once_a_minute(says, clock):
    assert "tried again until it can: refused" in says(consumer.CONNECTION_ERROR, "redis://", "refused", "soon")
    for clock.now in (1.0, 30.0, 59.0):
        assert says(consumer.CONNECTION_ERROR, "redis://", "refused", "soon") is None
        assert says("%s (%r)", consumer.CONNECTION_RETRY, OSError("lost")) is None
        assert says("Frequent restarts detected: %r", ValueError()) is None
    clock.now = 61.0
    assert "lost" in says("%s (%r)", consumer.CONNECTION_RETRY, OSError("lost"))


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (consumer.UNKNOWN_FORMAT, ("rows",)),
        (consumer.UNKNOWN_TASK_ERROR, ("name", "rows", {}, {})),
        (consumer.INVALID_TASK_ERROR, ("why", "rows")),
        (consumer.MESSAGE_DECODE_ERROR, ("why", "type", "encoding", {}, "rows")),
    ],
)
def test_what_a_message_carries_is_not_told(says, message, arguments):
    assert "rows" in message % arguments
    assert says(message, *arguments) == (
        "A message was dropped that this version does not understand; its sender may be of another."
    )


def test_each_error_of_the_connection_is_handed_on_whether_or_not_it_is_logged(says, lost):
    errors = [OSError("refused"), OSError("lost")]
    says(consumer.CONNECTION_ERROR, "redis://", errors[0], "soon")
    says("%s (%r)", consumer.CONNECTION_RETRY, errors[1])
    says("Frequent restarts detected: %r", ValueError())
    says("A process %s died", "of the pool")
    assert lost == errors


def test_everything_else_is_told_as_it_is(says):
    assert says("A process %s died", "of the pool") == "A process of the pool died"
