"""A checkpoint is whole and of this trial, or the one before it is, or the trial starts anew; and it is said why."""

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ladder.train.checkpoint import META, Checkpoint, Identity, files, load, save

REPO = Path(__file__).resolve().parents[2]
IDENTITY = Identity("h1:a", "b", "sha256:c", 1, "xla")
STATE = {
    "params/fc1/w": np.linspace(-1, 1, 300, dtype=np.float32).reshape(30, 10),
    "params/fc1/b": np.array([np.nan, np.inf, -0.0, 1e-45], np.float32),
    "step": np.array(32, np.int32),
}
LINES = [{"epoch": 1, "correct": 50, "seconds": 0.1}, {"epoch": 2, "correct": 60, "seconds": 0.1}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / "cnn-sgd-s1.npz", Checkpoint(IDENTITY, 2, STATE, LINES))
    return tmp_path / "cnn-sgd-s1.npz"


def test_a_checkpoint_comes_back_bit_for_bit(path: Path) -> None:
    found, reason = load(path, IDENTITY)
    assert reason == ""
    assert found is not None
    assert (found.epoch, found.epochs, found.identity) == (2, LINES, IDENTITY)
    assert {k: (v.dtype, v.shape, v.tobytes()) for k, v in found.state.items()} == {
        k: (v.dtype, v.shape, v.tobytes()) for k, v in STATE.items()
    }


def test_none_is_no_reason_to_say_anything(tmp_path: Path) -> None:
    assert load(tmp_path / "none.npz", IDENTITY) == (None, "")


@pytest.mark.parametrize(
    ("field", "value"),
    [("recipe_hash", "h1:z"), ("program_sha", "z"), ("data_identity", "sha256:z"), ("seed", 2), ("lowerer", "iree")],
)
def test_a_checkpoint_of_another_trial_is_not_resumed_and_what_differs_is_named(
    path: Path, field: str, value: str | int
) -> None:
    found, reason = load(path, replace(IDENTITY, **{field: value}))
    assert found is None
    assert f"{field} {getattr(IDENTITY, field)} is not {value}" in reason
    assert "starting anew" in reason


def test_any_flipped_byte_is_found_or_harmless(path: Path) -> None:
    """Every third byte of the file, flipped in turn: the state is as saved, or the trial starts anew with a reason."""
    whole = path.read_bytes()
    found = 0
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        checkpoint, reason = load(path, IDENTITY)
        if checkpoint is None:
            found += 1
            assert "starting anew" in reason
        else:
            assert {k: v.tobytes() for k, v in checkpoint.state.items()} == {k: v.tobytes() for k, v in STATE.items()}
            assert (checkpoint.epoch, checkpoint.epochs) == (2, LINES)
    assert found > 0.8 * len(whole) / 3


@pytest.mark.parametrize("keep", [0, 1, 100, -1, -40])
def test_a_truncated_checkpoint_is_damaged(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])
    found, reason = load(path, IDENTITY)
    assert found is None
    assert "is damaged" in reason


DAMAGE = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "flipped": lambda whole: whole[:300] + bytes([whole[300] ^ 1]) + whole[301:],
    "empty": lambda whole: b"",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_of_two_the_one_before_is_used_when_the_newest_is_damaged_and_it_is_said(path: Path, damage: str) -> None:
    save(path, Checkpoint(IDENTITY, 3, {"params/w": np.ones(100, np.float32)}, [*LINES, {"epoch": 3}]))
    newest, before = files(path)
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    found, reason = load(path, IDENTITY)
    assert found is not None
    assert (found.epoch, found.epochs) == (2, LINES)
    assert f"checkpoint {path.name} is damaged" in reason
    assert "going on from the one before it, of epoch 2" in reason
    before.write_bytes(DAMAGE[damage](before.read_bytes()))
    found, reason = load(path, IDENTITY)
    assert found is None
    assert reason.count("is damaged") == 2
    assert reason.endswith("starting anew")


def test_killed_between_the_two_renames_the_one_before_is_there(path: Path) -> None:
    os.replace(*files(path))
    found, reason = load(path, IDENTITY)
    assert found is not None
    assert (found.epoch, reason) == (2, "")


def test_no_more_than_two_are_kept(path: Path) -> None:
    for epoch in (3, 4, 5):
        save(path, Checkpoint(IDENTITY, epoch, STATE, LINES))
    assert sorted(os.listdir(path.parent)) == sorted(file.name for file in files(path))
    os.unlink(path)
    found, _ = load(path, IDENTITY)
    assert found is not None
    assert found.epoch == 4


@pytest.mark.parametrize("content", [b"PK\x05\x06" + bytes(18), b"\x93NUMPY\x01\x00", b"\x80\x04N.", b"text"])
def test_a_foreign_file_is_damaged(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    found, reason = load(path, IDENTITY)
    assert found is None
    assert "is damaged" in reason


@pytest.mark.parametrize("meta", ["[]", "{}", '{"identity": {}}', "null"])
def test_a_foreign_archive_is_damaged(path: Path, meta: str) -> None:
    with path.open("wb") as file:
        np.savez(file, **{META: np.array(meta)})  # type: ignore[arg-type]
    assert "is damaged" in load(path, IDENTITY)[1]


def test_an_archive_of_the_same_trial_without_its_epochs_is_damaged(path: Path) -> None:
    from dataclasses import asdict

    with path.open("wb") as file:
        meta = np.array(json.dumps({"identity": asdict(IDENTITY), "epoch": 2}))
        np.savez(file, **{META: meta})  # type: ignore[arg-type]
    assert "is damaged" in load(path, IDENTITY)[1]


def test_a_folder_in_its_place_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "odd.npz").mkdir()
    assert "is damaged" in load(tmp_path / "odd.npz", IDENTITY)[1]


def test_a_full_disk_keeps_the_old_checkpoint_and_leaves_nothing_beside_it(path: Path) -> None:
    """A real limit on the size of files in a process of its own: what a full disk does to a write."""
    code = (
        "import resource, sys; import numpy as np; from pathlib import Path; from ladder.train.checkpoint import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: save(Path(sys.argv[1]), Checkpoint(Identity('h1:a', 'b', 'sha256:c', 1, 'xla'), 3,"
        " {'params/w': np.ones(1_000_000, np.float32), 'params/v': np.ones(9, np.float32)}))\n"
        "except OSError as error: print('told:', error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=REPO, capture_output=True, text=True)
    assert done.stdout == "told: File too large\n"
    assert done.stderr == ""
    assert os.listdir(path.parent) == [path.name]
    found, _ = load(path, IDENTITY)
    assert found is not None
    assert found.epoch == 2


def test_a_folder_that_cannot_be_made_is_an_oserror(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        save(tmp_path / "file" / "below.npz", Checkpoint(IDENTITY, 1, STATE, LINES))


def test_a_checkpoint_is_a_plain_zip_that_anyone_can_read(path: Path) -> None:
    assert set(zipfile.ZipFile(path).namelist()) == {f"{name}.npy" for name in (*STATE, META)}
