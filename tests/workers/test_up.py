from dataclasses import replace

import pytest

from pipeline.settings import Settings
from workers import up


@pytest.fixture
def children(monkeypatch, tmp_path):
    """What would be started for some settings, by name: arguments behind the role's own command, and environment."""
    started = []

    class Kept:
        def __init__(self, children, on_death, **manner):
            started.extend(children)
            assert [on_death("gpu cuda:0", 7, returncode) for returncode in (69, 1, 75, -9)] == [
                False,
                True,
                True,
                True,
            ]

        def run(self):
            return 0

    monkeypatch.setattr(up, "Supervisor", Kept)
    usual = Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path}/pipeline.db", broker_url="redis://far")

    def run(**settings):
        assert up.run_all(replace(usual, **settings), 2, ("cuda:0", "cuda:1"), lambda: None, lambda: None) == 0
        return {child.name: (child.argv[3:], child.env) for child in started}

    return run


def test_each_process_has_a_port_of_its_own_and_the_same_log(children):
    found = children(metrics_port=9400, log_format="json")
    assert list(found) == ["gpu cuda:0", "gpu cuda:1", "tokenizer", "dispatcher"]
    assert {name: argv[-1] for name, (argv, _) in found.items()} == {
        "dispatcher": "9400",
        "tokenizer": "9401",
        "gpu cuda:0": "9402",
        "gpu cuda:1": "9403",
    }
    assert {env["PIPELINE_LOG_FORMAT"] for _, env in found.values()} == {"json"}


def test_without_a_port_none_is_asked_for(children):
    assert not any("--metrics-port" in argv for argv, _ in children().values())
