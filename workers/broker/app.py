"""The Celery app of a fleet: how messages travel. What they say, and whether they count, the database decides."""

from celery import Celery
from kombu import Queue

from pipeline.errors import SpecError
from workers.broker.address import parse_address

#: The names of the two tasks, and of the queue that each travels in.
ENCODE, ANSWER = "pipeline.encode", "pipeline.answer"
QUEUES = {ENCODE: "tokenizer", ANSWER: "gpu"}
#: All keys that a fleet leaves in Redis begin so.
PREFIX = "pipeline:"


def make_app(broker_url: str, *, silence_s: float = 10.0) -> Celery:
    """Whoever runs a task registers it: `app.task(name=ENCODE)(function)`.

    A server that says nothing for about `silence_s` is taken for dead. Raises SpecError for a URL that makes no sense.
    """
    address = parse_address(broker_url)
    app = Celery("pipeline", broker=address.kombu_url)
    app.conf.update(
        # Not declared: a queue is a list, which is there once something is in it. So workers ask Redis for nothing but
        # messages, which it gives also when its memory is full, and there are no bindings that it could lose.
        task_queues=[Queue(name, routing_key=name, no_declare=True) for name in QUEUES.values()],
        task_create_missing_queues=False,
        task_serializer="msgpack",
        accept_content=["msgpack"],
        task_ignore_result=True,
        task_publish_retry=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        broker_transport_options={
            "global_keyprefix": PREFIX,
            "priority_steps": [0],
            # A message is gone from Redis once a worker has it: the lease in the database holds the work, and an
            # acknowledgement is a write, which a full Redis refuses, so that its workers would die and never empty it.
            "ack_emulation": False,
            "socket_timeout": silence_s,
            "socket_connect_timeout": silence_s / 2,
            "socket_keepalive": True,
            "health_check_interval": silence_s,
            "retry_on_timeout": False,
            # Whoever sends hears of a failure at once; workers try for ever all the same.
            "max_retries": 0,
        },
    )
    if {app.conf.broker_read_url, app.conf.broker_write_url} != {address.kombu_url}:
        raise SpecError(
            "A variable of Celery's own, CELERY_BROKER_URL or one like it, is set and names another broker than "
            "PIPELINE_BROKER_URL. Unset it."
        )
    return app
