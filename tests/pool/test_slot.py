"""A device slot has one user; a second waits, or is told the holder."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ladder.errors import LadderError
from ladder.pool.slot import Busy, Slot, describe


def test_a_second_user_is_told_the_holder() -> None:
    slot = Slot.acquire("cpu-0", {"run": "mnist on testbox, run 12345678"}, 0, lambda _: None)
    with pytest.raises(Busy, match=rf"taken by process {os.getpid()} \(mnist on testbox, run 12345678\) since 2"):
        Slot.acquire("cpu-0", {}, 0, lambda _: None)
    slot.close()
    Slot.acquire("cpu-0", {}, 0, lambda _: None).close()


def test_another_device_is_another_slot() -> None:
    with Slot.acquire("cuda-0", {}, 0, lambda _: None), Slot.acquire("cuda-1", {}, 0, lambda _: None):
        pass


def test_waiting_says_whom_for_and_gets_the_slot() -> None:
    said: list[str] = []
    slot = Slot.acquire("cpu-0", {"run": "first"}, 0, said.append)
    threading.Timer(0.3, slot.close).start()
    began = time.monotonic()
    Slot.acquire("cpu-0", {"run": "second"}, 30, said.append).close()
    assert time.monotonic() - began < 5
    assert len(said) == 1
    assert f"taken by process {os.getpid()} (first)" in said[0]
    assert "waiting up to 30 s" in said[0]


def test_a_killed_holder_leaves_the_slot_free() -> None:
    code = (
        "import time; from ladder.pool.slot import Slot\n"
        "Slot.acquire('cpu-0', {}, 0, print); print('held', flush=True); time.sleep(60)"
    )
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Busy):
            Slot.acquire("cpu-0", {}, 0, lambda _: None)
        holder.kill()
        Slot.acquire("cpu-0", {}, 2, lambda _: None).close()


def test_closing_twice_closes_nobody_elses_descriptor() -> None:
    slot = Slot.acquire("cpu-0", {}, 0, lambda _: None)
    slot.close()
    other = os.open(os.devnull, os.O_RDONLY)
    slot.close()
    os.fstat(other)
    os.close(other)


def test_a_slot_file_that_says_nothing_is_an_unknown_process() -> None:
    slot = Slot.acquire("cpu-0", {}, 0, lambda _: None)
    os.ftruncate(slot.fd, 0)
    assert describe("cpu-0") == "an unknown process"
    os.pwrite(slot.fd, b"[]", 0)
    assert describe("cpu-0") == "an unknown process"
    slot.close()


def test_a_cache_that_cannot_be_written_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "file"))
    with pytest.raises(LadderError, match="cannot be written"):
        Slot.acquire("cpu-0", {}, 0, lambda _: None)
