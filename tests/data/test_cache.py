"""A dataset is decoded once; killed, crowded, damaged and full caches all end in a whole dataset or one clear error."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ladder.data import Dataset, cache, prepare
from ladder.data.files import verify
from ladder.data.identity import Arrays, identity
from ladder.errors import LadderError

REPO = Path(__file__).resolve().parents[2]
WriteIdx = Callable[..., Path]

# Prepares argv[1] in argv[2], and stops for argv[4] seconds at its argv[3]-th sync of a file or folder, half written.
CHILD = """
import os, stat, sys, time
from pathlib import Path
from ladder.data import cache, prepare
syncs, sync, decode = 0, cache._sync, cache._decode
def slow(descriptor):
    global syncs
    syncs += 1
    if syncs == int(sys.argv[3]):
        size = os.fstat(descriptor).st_size
        if float(sys.argv[4]) > 10 and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.ftruncate(descriptor, size // 2)
        print("stopped", flush=True)
        time.sleep(float(sys.argv[4]))
    sync(descriptor)
cache._sync = slow
say = lambda line: print(line, flush=True)
dataset = prepare("mnist", data_dir=Path(sys.argv[1]), cache=Path(sys.argv[2]), say=say)
print(dataset.folder)
"""
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[:-1],
    "wrong hash": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "empty meta": lambda _: b"",
}
SYNCS = 8  # four arrays, meta.json, the folder, the folder above after the rename, the source's entry


@pytest.fixture
def source(tiny: Arrays, write_idx: WriteIdx, tmp_path: Path) -> Path:
    return write_idx(tmp_path / "idx", tiny)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def quiet(source: Path, root: Path) -> Dataset:
    return prepare("mnist", data_dir=source, cache=root, say=lambda _: None)


def child(source: Path, root: Path, stop_at: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(source), str(root), str(stop_at), str(seconds)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(REPO)}, stdout=subprocess.PIPE, text=True)


def lines_until(process: subprocess.Popen[str], word: str) -> Iterator[str]:
    assert process.stdout
    for line in process.stdout:
        yield line
        if word in line:
            return
    raise AssertionError(f"the child ended with {process.wait()} before it said {word!r}")


def test_a_second_preparation_decodes_nothing(source: Path, root: Path, said: list[str]) -> None:
    first = quiet(source, root)
    again = prepare("mnist", data_dir=source, cache=root, say=said.append)
    assert again == first
    assert not any("decoding" in line for line in said)


def test_a_moved_source_is_still_known(source: Path, root: Path, said: list[str]) -> None:
    quiet(source, root)
    prepare("mnist", data_dir=source.rename(source.with_name("moved")), cache=root, say=said.append)
    assert not any("decoding" in line for line in said)


def test_a_changed_source_is_another_dataset(source: Path, root: Path, tiny: Arrays, write_idx: WriteIdx) -> None:
    """Same names, sizes and times: only the bytes differ."""
    first = quiet(source, root)
    times = {path: path.stat().st_mtime_ns for path in source.iterdir()}
    changed = replace(tiny, train_labels=tiny.train_labels[::-1].copy())
    write_idx(source, changed)
    for path, at in times.items():
        os.utime(path, ns=(at, at))
    second = quiet(source, root)
    assert (second.identity, first.identity) == (identity(changed), identity(tiny))
    assert second.folder != first.folder


def test_two_forms_of_one_dataset_share_a_folder(source: Path, root: Path, tiny: Arrays, write_idx: WriteIdx) -> None:
    packed = quiet(write_idx(source.with_name("gz"), tiny, gz=True), root)
    assert packed.folder == quiet(source, root).folder


def test_the_decoder_is_the_one_that_decoded(source: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = quiet(source, root)
    monkeypatch.setattr("numpy.__version__", "99.0")
    assert quiet(source, root).decoder == first.decoder != "numpy 99.0 IDX"


def test_the_folder_says_what_it_is(source: Path, root: Path, tiny: Arrays) -> None:
    dataset = quiet(source, root)
    meta = verify(dataset.folder)
    assert dataset.folder.name == f"mnist-{identity(tiny)[7:19]}"
    assert meta["identity"] == dataset.identity == identity(tiny)
    assert (meta["name"], meta["train"], meta["test"], meta["classes"]) == ("mnist", 60, 20, 10)
    assert meta["decoder"] == dataset.decoder
    assert str(source) not in str(meta)


@pytest.mark.parametrize("stop_at", range(1, SYNCS + 1))
def test_a_kill_at_any_sync_leaves_nothing_that_loads(source: Path, root: Path, stop_at: int) -> None:
    process = child(source, root, stop_at, seconds=60)
    for _ in lines_until(process, "stopped"):
        pass
    process.kill()
    process.communicate()
    for folder in (root / "datasets").glob("mnist-*"):
        verify(folder)
    assert quiet(source, root) == quiet(source, root)
    assert [path.name for path in (root / "datasets").glob(".partial-*")] == []


def test_all_syncs_are_covered_by_the_kill_test(source: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counted(descriptor: int) -> None:
        nonlocal count
        count += 1

    monkeypatch.setattr(cache, "_sync", counted)
    quiet(source, root)
    assert count == SYNCS


def test_two_processes_one_works_and_one_waits(source: Path, root: Path) -> None:
    working = child(source, root, 1, seconds=1.5)
    for _ in lines_until(working, "stopped"):
        pass
    waiting = child(source, root, 0, seconds=0)
    heard, _ = waiting.communicate(timeout=30)
    rest, _ = working.communicate(timeout=30)
    assert "another process prepares mnist; waiting for it" in heard
    assert "decoding" not in heard
    assert heard.splitlines()[-1] == rest.splitlines()[-1]
    assert (waiting.returncode, working.returncode) == (0, 0)


def test_the_wait_has_a_deadline(source: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOCK_SECONDS", 0.3)
    working = child(source, root, 1, seconds=60)
    for _ in lines_until(working, "stopped"):
        pass
    start = time.monotonic()
    with pytest.raises(
        LadderError, match=r"another process prepares mnist and held .*mnist\.lock for more than 0\.3 s"
    ):
        quiet(source, root)
    assert time.monotonic() - start < 5
    working.kill()
    working.communicate()


@pytest.mark.parametrize("damage", [*DAMAGED, "missing file", "no meta"])
def test_a_damaged_cache_is_said_and_prepared_anew(source: Path, root: Path, said: list[str], damage: str) -> None:
    dataset = quiet(source, root)
    path = dataset.folder / ("meta.json" if "meta" in damage else "test_images.npy")
    content = path.read_bytes()
    path.unlink()
    if damage in DAMAGED:
        path.write_bytes(DAMAGED[damage](content))
    assert prepare("mnist", data_dir=source, cache=root, say=said.append) == dataset
    assert any("the cached dataset is damaged and is prepared anew from IDX files" in line for line in said)
    verify(dataset.folder)
    assert [p.name for p in (root / "datasets").glob(".partial-*")] == []


def test_a_damaged_cache_without_its_source_is_an_error(source: Path, root: Path) -> None:
    dataset = quiet(source, root)
    (dataset.folder / "test_images.npy").unlink()
    for path in source.iterdir():
        path.unlink()
    with pytest.raises(LadderError, match="holds no mnist"):
        quiet(source, root)


def test_a_damaged_source_entry_costs_one_decoding(source: Path, root: Path, said: list[str]) -> None:
    dataset = quiet(source, root)
    (entry,) = (root / "datasets" / "sources").iterdir()
    entry.write_text('{"folder": ')
    assert prepare("mnist", data_dir=source, cache=root, say=said.append) == dataset
    assert any("decoding" in line for line in said)


def test_a_full_disk_is_an_error_and_leaves_nothing(source: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache, "_sync", full)
    with pytest.raises(LadderError, match=r"cannot be written: .*No space left on device") as error:
        quiet(source, root)
    assert "LADDER_CACHE" in error.value.hint
    assert [p.name for p in (root / "datasets").glob("*mnist-*")] == []


def test_a_cache_that_is_a_file_is_an_error(source: Path, root: Path) -> None:
    root.write_text("")
    with pytest.raises(LadderError, match="cannot be written"):
        quiet(source, root)
