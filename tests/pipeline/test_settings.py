import dataclasses
from pathlib import Path

import pytest

from pipeline.errors import JobError, SpecError
from pipeline.settings import Settings


def test_with_nothing_set_everything_is_usual():
    assert Settings.from_environment({}) == Settings()


def test_each_variable_is_read():
    assert Settings.from_environment(
        {
            "PIPELINE_HOME": "/data/home",
            "PIPELINE_DATABASE_URL": "sqlite:////data/x.db",
            "PIPELINE_DEVICE": "cuda:1",
            "PIPELINE_SHARD_ROWS": "10",
            "PIPELINE_BATCH_ROWS": "20",
            "PIPELINE_BATCH_TOKENS": "30",
            "PIPELINE_LEASE_S": "40",
            "PIPELINE_PREFIX_BYTES": "50",
            "PIPELINE_PREFIX_HOST_BYTES": "60",
            "PIPELINE_PREFIX_DISK_BYTES": "70",
            "PIPELINE_PREFIX_TTL_S": "80",
            "PIPELINE_BROKER_URL": "redis://broker",
            "PIPELINE_SHARDS": "s3://bucket/shards",
            "PIPELINE_LOST_AFTER_S": "90",
            "PIPELINE_BATCH_SECONDS": "5",
            "PIPELINE_SOURCE_URL": "postgresql://me:x@host/db",
        }
    ) == Settings(
        home=Path("/data/home"),
        database_url="sqlite:////data/x.db",
        device="cuda:1",
        shard_rows=10,
        batch_rows=20,
        batch_tokens=30,
        lease_s=40.0,
        prefix_bytes=50,
        prefix_host_bytes=60,
        prefix_disk_bytes=70,
        prefix_ttl_s=80.0,
        broker_url="redis://broker",
        shards="s3://bucket/shards",
        lost_after_s=90.0,
        batch_seconds=5.0,
        source_url="postgresql://me:x@host/db",
    )


def test_the_database_lies_in_the_home_unless_it_is_named():
    assert Settings.from_environment({"PIPELINE_HOME": "/data"}).database_url == "sqlite:////data/pipeline.db"


def test_shards_lie_in_the_home_wherever_one_is_later(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment({"PIPELINE_HOME": "home"})
    assert settings.shard_directory("j1") == f"{tmp_path}/home/jobs/j1/shards"


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ("shared", "{here}/shared/j1/shards"),
        ("/mnt/shared/", "/mnt/shared/j1/shards"),
        ("s3://bucket/a/", "s3://bucket/a/j1/shards"),
        ("s3://bucket/a?region=eu&scheme=http", "s3://bucket/a/j1/shards?region=eu&scheme=http"),
        ("file:///mnt/shared", "file:///mnt/shared/j1/shards"),
        ("", "{here}/.pipeline/jobs/j1/shards"),
    ],
)
def test_shards_lie_where_all_machines_see_them(named, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment({"PIPELINE_SHARDS": named})
    assert settings.shard_directory("j1") == place.format(here=tmp_path)


def test_an_empty_broker_is_none():
    assert Settings.from_environment({"PIPELINE_BROKER_URL": ""}).broker_url is None


def test_no_password_is_shown():
    urls = {"PIPELINE_DATABASE_URL": "postgresql://me:secret@h/d", "PIPELINE_BROKER_URL": "redis://:secret@h"}
    assert "secret" not in repr(Settings.from_environment(urls))


@pytest.mark.parametrize("text", ["zero", "0", "-1", "1.5", ""])
@pytest.mark.parametrize("name", ["PIPELINE_SHARD_ROWS", "PIPELINE_LEASE_S", "PIPELINE_PREFIX_TTL_S"])
def test_a_number_that_is_none(name, text):
    with pytest.raises(SpecError) as caught:
        Settings.from_environment({name: text})
    assert str(caught.value) == f"{name} is {text!r}; it must be a whole number of 1 or more."


@pytest.mark.parametrize("name", ["PIPELINE_PREFIX_HOST_BYTES", "PIPELINE_PREFIX_DISK_BYTES"])
def test_room_that_may_be_none(name):
    assert 0 in dataclasses.astuple(Settings.from_environment({name: "0"}))
    with pytest.raises(SpecError) as caught:
        Settings.from_environment({name: "-1"})
    assert str(caught.value) == f"{name} is '-1'; it must be a whole number of 0 or more."


def test_the_home_is_made_with_all_above_it(tmp_path):
    home = tmp_path / "a" / "b"
    assert Settings(home=home).make_home() == home
    assert list(home.iterdir()) == []
    assert Settings(home=home).make_home() == home


def test_a_home_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JobError) as caught:
        Settings(home=tmp_path / "file" / "home").make_home()
    assert str(caught.value) == (
        f"The directory {tmp_path / 'file' / 'home'} cannot be written to: Not a directory. "
        "Set PIPELINE_HOME to a directory that you may write to."
    )


def test_a_log_is_text_or_json():
    assert Settings.from_environment({}).log_format == "text"
    assert Settings.from_environment({"PIPELINE_LOG_FORMAT": "json"}).log_format == "json"
    with pytest.raises(SpecError, match="PIPELINE_LOG_FORMAT is 'xml'; it must be text or json"):
        Settings.from_environment({"PIPELINE_LOG_FORMAT": "xml"})


@pytest.mark.parametrize(
    ("environment", "traces"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_traces_are_sent_where_the_variables_of_opentelemetry_say_so(environment, traces):
    assert Settings.from_environment(environment).traces is traces
