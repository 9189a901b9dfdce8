"""A run through iree: its record says so and holds the flags of every program; a SIGSEGV costs one trial only."""

from pathlib import Path

import pytest

from ladder import paths, records
from ladder.request import Request
from ladder.run import drive

# A worker dies of SIGSEGV where it would commit its first epoch: twice, which is as often as a trial is begun anew.
SEGFAULT = """
import os, pathlib, signal, sys
if "ladder.pool.worker" in sys.orig_argv:
    def fsync(fd, really=os.fsync, times=pathlib.Path({times!r})):
        times.write_text(times.read_text() + "x" if times.exists() else "x")
        if len(times.read_text()) <= 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        really(fd)
    os.fsync = fsync
"""


@pytest.mark.slow
def test_a_run_through_iree_records_its_flags_and_outlives_a_crash(
    idx_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SEGFAULT.format(times=str(tmp_path / "times")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    request = Request(
        "mnist",
        nets=("linear",),
        seeds=(1, 2),
        lowerer="iree",
        epochs=30,
        data_dir=str(idx_folder),
    )
    said: list[str] = []
    record = records.read(drive(request, said.append).record_path)
    assert [(f.seed, f.status) for f in record.finals] == [(1, "crashed"), (2, "done")]
    assert "SIGSEGV" in record.finals[0].note
    assert {f.lowerer for f in record.finals} == {"iree"}
    assert (record.manifest["profile"], record.manifest["lowerer"]) == ("iree-cpu", "iree")
    (program,) = record.manifest["programs"].values()
    assert "--iree-llvmcpu-target-cpu=host" in program["options"]["flags"]
    assert "agree with XLA on the CPU" in program["options"]["reason"]
    plugins = record.manifest["platform"]["plugins"]
    assert plugins["iree-base-compiler"] == plugins["iree-base-runtime"]
    assert record.manifest["devices"][0]["runtime"].startswith("iree ")
    told = (record.path / records.MANIFEST).read_text()
    assert str(paths.cache()) not in told
    assert any("iree: O1: right" in line for line in said)
