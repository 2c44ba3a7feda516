"""Ctrl-C at moments at which Python itself would tell of it."""

import signal
import sys

import pytest

from jobs import cli


@pytest.fixture(autouse=True)
def process(monkeypatch):
    """As it was before the command, which has it for itself as a rule."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("error", "told"), [(KeyboardInterrupt, ""), (ValueError, "ValueError: It broke.")])
def test_ctrl_c_amid_a_destructor_shows_no_traceback_and_a_fault_does(monkeypatch, capsys, error, told):
    class Connection:
        def __del__(self):
            raise error("It broke.")

    monkeypatch.setattr(cli, "cli", lambda **_: Connection() and None)
    cli.main()
    assert capsys.readouterr().err.rstrip().rpartition("\n")[2] == told
