import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from pipeline.store.records import Role, WorkerState

ROOT = Path(__file__).parents[2]


def hint(run, *arguments):
    result = run("scale-hint", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_none_are_wanted_where_nothing_waits(desk, run):
    desk.running("here")
    desk.done("night", fleet=True)
    told = hint(run)
    assert told == {
        "deadline_seconds": 3600.0,
        "waiting": {
            "rows": {"unencoded": 0, "pending": 0, "enqueued": 0, "leased": 0},
            "prompt_tokens": {"pending": 0, "enqueued": 0, "leased": 0},
        },
        "tokens_per_second_of_one_gpu_worker": {},
        "gpu": {"alive": 0, "workers": 0, "reason": None},
        "tokenizer": {"alive": 0, "workers": 0, "reason": None},
    }


def test_before_anything_was_measured_one_is_wanted(desk, run):
    desk.running("night", fleet=True)
    desk.cutting("new", fleet=True)
    told = hint(run)
    assert told["waiting"]["rows"] == {"unencoded": 4, "pending": 5, "enqueued": 0, "leased": 0}
    assert told["waiting"]["prompt_tokens"]["pending"] == 23
    assert told["gpu"]["workers"] == 1
    assert told["gpu"]["reason"].startswith("No batch was answered yet")


def test_what_was_measured_decides(desk, run):
    desk.running("night", batches=2, fleet=True)
    desk.enter(Role.GPU, WorkerState.BUSY)
    desk.enter(Role.TOKENIZER, facts=json.dumps({"concurrency": 3}))
    told = hint(run, "--deadline", "10m")
    assert told["deadline_seconds"] == 600
    assert told["waiting"]["rows"]["pending"] == 1
    assert told["gpu"] == {"alive": 1, "workers": 1, "reason": None}
    assert told["tokenizer"]["alive"] == 3
    # A batch of two rows and 4,020 tokens took 0.9 s of the model's time, and the row that is left needs half of that.
    assert told["tokens_per_second_of_one_gpu_worker"] == {"m": pytest.approx(4020 / 0.9)}
    assert hint(run, "--deadline", "0.1")["gpu"]["workers"] == 5


def test_only_one_model_where_it_is_asked_for(desk, run):
    desk.running("night", fleet=True)
    desk.running("day", fleet=True, model="other")
    assert hint(run)["waiting"]["rows"]["pending"] == 10
    assert hint(run, "--model", "other")["waiting"]["rows"]["pending"] == 5


def test_while_an_input_is_read_tokenizers_are_not_all_sent_away(desk, run):
    job = desk.real.create_job("new", desk.cutting("old").spec_json, "print", "model", "input", fleet=True)
    assert hint(run)["tokenizer"]["workers"] == 0  # whoever read it is gone
    desk.enter(Role.PRODUCER, WorkerState.BUSY, job_id=job.id)
    assert hint(run)["tokenizer"] == {
        "alive": 0,
        "workers": 1,
        "reason": "Nothing waits just now, but an input is still being read, and more comes of it.",
    }
    assert hint(run)["gpu"]["workers"] == 0
    run("pause", "new")
    assert hint(run)["tokenizer"]["workers"] == 0


def test_what_the_documented_trigger_looks_for_is_there(desk, run):
    (shown,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/fleet.md").read_text(), re.DOTALL)
    deployment, service, scaled = yaml.safe_load_all(shown)
    (trigger,) = scaled["spec"]["triggers"]
    role, field = trigger["metadata"]["valueLocation"].split(".")
    told = hint(run, "--deadline", "8h")
    assert "pipeline scale-hint --deadline 8h >" in deployment["spec"]["template"]["spec"]["containers"][0]["args"][0]
    assert told[role][field] == 0
    assert urlsplit(trigger["metadata"]["url"]).netloc == f"{service['metadata']['name']}:8080"


def test_a_paused_job_wants_nobody(desk, run):
    desk.running("night", fleet=True)
    run("pause", "night")
    assert hint(run)["gpu"]["workers"] == 0


@pytest.mark.parametrize("deadline", ["soon", "0", "-1h", "nan", "inf"])
def test_a_deadline_that_is_no_time_is_refused(run, deadline):
    result = run("scale-hint", "--deadline", deadline)
    assert result.exit_code == 2
    assert "is no time; write seconds, or 30m, 2h, 1d." in result.stderr
