import pytest
import torch

from pipeline.inference.device import choose_dtype, device_name, usual_dtypes

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(("device", "dtype"), [(CPU, torch.float32), (CUDA, torch.bfloat16)], ids=str)
def test_auto_suits_the_device(device, dtype):
    assert choose_dtype("auto", device) is dtype


@pytest.mark.parametrize("native", [True, False])
def test_a_cpu_takes_bfloat16_where_it_is_native_and_what_the_weights_are(monkeypatch, native):
    monkeypatch.setattr("pipeline.inference.device._multiplies_bfloat16", lambda: native)
    of = {stored: choose_dtype("auto", CPU, stored) for stored in (torch.bfloat16, torch.float16, torch.float32, None)}
    own = torch.bfloat16 if native else torch.float32
    assert of == {torch.bfloat16: own, torch.float16: torch.float32, torch.float32: torch.float32, None: torch.float32}
    assert usual_dtypes(CPU) == ([torch.float32, torch.bfloat16] if native else [torch.float32])
    assert usual_dtypes(CUDA) == [torch.bfloat16]


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16"])
def test_what_is_asked_for_is_had_anywhere(wanted):
    assert choose_dtype(wanted, CPU) is choose_dtype(wanted, CUDA) is getattr(torch, wanted)


def test_a_cpu_is_named_by_what_its_speed_depends_on():
    threads = torch.get_num_threads()
    assert device_name(CPU).endswith(f" cpu, {torch.backends.cpu.get_cpu_capability()}, {threads} threads")
