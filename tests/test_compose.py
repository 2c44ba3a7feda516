"""docker-compose.yml, as Docker Compose itself reads it, held to the program that it runs."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest

from jobs.cli import cli
from pipeline.inference.vitals import Vitals
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.dispatch import Recovered
from workers.metrics.answered import AnsweredMetrics, DeviceMetrics
from workers.metrics.encoded import EncodedMetrics
from workers.metrics.queued import QueuedMetrics

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ROLES = ("dispatcher", "tokenizer", "gpu")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, object]]:
    """With all defaults filled in; Compose refuses what it does not know."""
    compose = Path(sys.executable).with_name("docker-compose")
    command = [compose] if compose.is_file() else [shutil.which("docker") or "docker", "compose"]
    done = subprocess.run(
        [
            *command,
            "-f",
            ROOT / "docker-compose.yml",
            "--profile",
            "ask",
            "--profile",
            "metrics",
            "config",
            "--format",
            "json",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


def test_it_has_every_role_a_broker_and_a_database(services):
    assert set(services) == {*ROLES, "redis", "postgres", "submit", "prometheus", "grafana"}


@pytest.mark.parametrize("role", [*ROLES, "submit"])
def test_a_service_runs_a_command_that_there_is(services, role):
    command = services[role]["command"]
    asked = CliRunner().invoke(cli, [*command, "--help"], prog_name="pipeline")
    assert asked.exit_code == 0, asked.output


@pytest.mark.parametrize("role", ROLES)
def test_a_service_is_watched_by_a_command_that_there_is_and_may_end_its_batch(services, role):
    assert services[role]["healthcheck"]["test"] == ["CMD", "pipeline", "worker", "alive"]
    assert CliRunner().invoke(cli, ["worker", "alive", "--help"]).exit_code == 0
    assert services[role]["stop_grace_period"] == "2m0s"
    assert {name: facts["condition"] for name, facts in services[role]["depends_on"].items()} == {
        "redis": "service_healthy",
        "postgres": "service_healthy",
    }


@pytest.mark.parametrize("role", [*ROLES, "submit"])
def test_the_settings_that_it_gives_are_those_that_are_read(services, role):
    given = services[role]["environment"]
    known = set(re.findall(r"(?:PIPELINE|OTEL)_[A-Z_]+", (ROOT / "pipeline/settings.py").read_text()))
    assert set(given) <= known
    settings = Settings.from_environment(given)
    assert settings.broker_url == "redis://:pipeline@redis:6379/0"
    assert settings.database_url == "postgresql://pipeline:pipeline@postgres:5432/pipeline"


def test_the_broker_has_the_limits_that_it_needs_and_keeps_nothing(services):
    command = services["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--maxmemory-policy"] == "noeviction"
    assert (options["--maxmemory"], options["--save"], options["--appendonly"]) == ("256mb", "", "no")


def test_prometheus_looks_for_every_role_where_it_serves_its_metrics(services):
    (scrape,) = yaml.safe_load((ROOT / "monitoring/prometheus.yml").read_text())["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]
    assert set(found["names"]) == set(ROLES)
    assert {services[role]["environment"]["PIPELINE_METRICS_PORT"] for role in ROLES} == {str(found["port"])}


def test_the_dashboard_is_only_there_where_it_is_asked_for_and_its_files_are(services):
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["metrics"]
        mounted = [volume["source"] for volume in services[name]["volumes"] if volume["type"] == "bind"]
        assert mounted
        assert all(Path(source).is_file() for source in mounted)
    assert services["grafana"]["ports"][0]["host_ip"] == "127.0.0.1"


def test_the_dashboard_asks_for_metrics_that_there_are(tmp_path):
    settings = Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path}/pipeline.db")
    registries = [CollectorRegistry() for _ in range(3)]
    AnsweredMetrics(registries[0])
    registries[0].register(DeviceMetrics(lambda: 0.0, Vitals))
    EncodedMetrics(registries[1])
    registries[2].register(QueuedMetrics(open_database(settings), Recovered, lambda: (None, 0)))
    text = "".join(generate_latest(registry).decode() for registry in registries)
    there = {
        name + ending
        for name, kind in re.findall(r"^# TYPE (pipeline_\w+) (\w+)", text, re.MULTILINE)
        for ending in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }
    dashboard = json.loads((ROOT / "monitoring/pipeline.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for expression in asked for name in re.findall(r"pipeline_\w+", expression)}
    assert len(names) > 12
    assert names <= there


def test_what_the_images_set_are_settings_and_what_they_copy_is_there():
    assert set(re.findall(r"PIPELINE_[A-Z_]+", DOCKERFILE)) <= {"PIPELINE_HOME", "PIPELINE_SHARDS"}
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())
    assert set(re.findall(r"AS (\w+)", DOCKERFILE)) == {"base", "gpu", "cpu"}
