"""Fakes of vendors' tools, first on PATH, and distributions that are installed in a test's own folder only."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Fake = Callable[[str, str], Path]
Install = Callable[[Mapping[str, str]], Path]

SAID = {
    "nvidia-smi": "NVIDIA GeForce RTX 4090, 580.159.04, 24564 MiB\nNVIDIA GeForce RTX 4090, 580.159.04, 24564 MiB\n",
    "rocm-smi": '{"card0": {"Card Series": "AMD Radeon RX 7900 XTX", "Card Model": "0x744c"}, '
    '"system": {"Driver version": "6.10.5"}}\n',
    "amd-smi": '[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}, '
    '"driver": {"name": "amdgpu", "version": "6.10.5"}}]\n',
    "xpu-smi": '{"device_list": [{"device_id": 0, "device_name": "Intel(R) Arc(TM) Pro B50 Graphics"}]}\n',
    "system_profiler": '{"SPDisplaysDataType": [{"_name": "Apple M1", "sppci_model" : "Apple M1"}]}\n',
}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """fake("nvidia-smi", "exit 9"): a tool of this name, first on PATH, that runs this shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, script: str) -> Path:
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    return make


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """install({"jaxlib": "0.11.0"}): these distributions, before all others on this process's path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])

    def make(versions: Mapping[str, str]) -> Path:
        for name, number in versions.items():
            info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        return folder

    return make


def says(text: str) -> str:
    """A shell script that prints this."""
    return f"cat <<'END'\n{text}END"
