"""Alive is who has a live process: not one that was killed, not another with its number; but one that is stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flows.alive import identity, is_alive


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_this_process_is_alive() -> None:
    assert is_alive(identity())
    assert identity() == identity(os.getpid())


def test_a_killed_process_is_dead_even_before_its_parent_looks(sleeper: "subprocess.Popen[bytes]") -> None:
    written = identity(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not is_alive(written)
    sleeper.wait()
    assert not is_alive(written)


def test_a_stopped_process_is_alive(sleeper: "subprocess.Popen[bytes]") -> None:
    written = identity(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    assert is_alive(written)
    sleeper.send_signal(signal.SIGCONT)


def test_another_process_with_the_number_is_not_it(sleeper: "subprocess.Popen[bytes]") -> None:
    pid, start, boot = identity(sleeper.pid).split()
    assert not is_alive(f"{pid} {int(start) - 1} {boot}")
    assert not is_alive(f"{pid} {start} another-boot")


@pytest.mark.parametrize("written", ["", "x", "0", "99999999 1 boot"])
def test_nonsense_is_dead(written: str) -> None:
    assert not is_alive(written)
