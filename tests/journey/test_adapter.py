"""`--adapter`: a job answered by a model that LoRA weights change."""

import shutil

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


@pytest.fixture
def make_adapter(tiny_model, tmp_path):
    def make(name="lora", seed=1):
        adapted = get_peft_model(
            AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(target_modules=["q_proj", "up_proj"])
        )
        torch.manual_seed(seed)
        with torch.no_grad():
            for weight in adapted.parameters():
                if weight.requires_grad:
                    weight.normal_(std=0.5)
        adapted.save_pretrained(tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture
def rows(table):
    return table(text=["a kettle", "it broke", "値段"])


def answers(home):
    return [result.output for result in home.results("night")]


def test_the_adapter_s_answers_are_others_than_the_model_s(make_home, tiny_model, rows, make_adapter):
    found = []
    for name, flags in {
        "plain": (),
        "one": ("--adapter", make_adapter()),
        "two": ("--adapter", make_adapter("2", 2)),
    }.items():
        home = make_home(name)
        given = ("--name", "night", "--model", tiny_model, "--prompt", "Say: {text}", "--max-tokens", "8")
        assert home.call("submit", rows, *given, *flags).exit_code == 0
        found.append(tuple(answers(home)))
    assert len(set(found)) == 3


def test_a_job_file_names_it_by_where_the_file_lies(home, submit, rows, make_adapter, tmp_path):
    make_adapter()
    (tmp_path / "job.yaml").write_text("adapter: lora\n")
    assert submit(rows, "--job", tmp_path / "job.yaml").exit_code == 0
    by_file = answers(home)
    assert submit(rows, "--name", "other", "--adapter", tmp_path / "lora").exit_code == 0
    assert by_file == [result.output for result in home.results("other")]


def test_the_dry_run_names_it(submit, rows, make_adapter):
    adapter = make_adapter()
    assert f"with the adapter {adapter} will read it" in submit(rows, "--adapter", adapter, "--dry-run").stdout


def test_another_adapter_is_another_job(submit, rows, make_adapter, told):
    one, two = make_adapter("one"), make_adapter("two", seed=2)
    assert submit(rows, "--adapter", one).exit_code == 0
    assert submit(rows, "--adapter", one).exit_code == 0
    for flags in ((), ("--adapter", two)):
        assert '\n  adapter: "' in told(submit(rows, *flags), 4)
    shutil.copytree(two, one, dirs_exist_ok=True)
    assert "model: its files or those of its adapter have changed" in told(submit(rows, "--adapter", one), 4)


def test_an_adapter_that_does_not_fit_is_told_before_anything_is_recorded(home, submit, rows, make_adapter, told):
    adapter = make_adapter()
    (adapter / "adapter_model.safetensors").unlink()
    assert told(submit(rows, "--adapter", adapter), 1).startswith(
        f"The adapter {adapter} cannot be loaded: it has no weights"
    )
    assert home.call("jobs").stdout.count("night") == 0
