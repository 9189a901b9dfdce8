"""Known failures are data, and strict: what is listed and passes is red until its line is gone."""

from pathlib import Path

import pytest

from ladder.errors import LadderError
from ladder.suite.case import Case
from ladder.suite.expectations import FOLDER, Expectation, device_file, diff, load, state_of, unknown
from ladder.suite.runner import Result
from platforms import profile

PLATFORMS = profile.names()


def result(status: str) -> Result:
    return Result(Case("sort", 2, "sort"), status, None, None, 0.0, "off by 3")  # pyright: ignore[reportArgumentType]


def expected(state: str) -> Expectation:
    return Expectation("sort", state, "the driver's bug 7", "cpu.txt")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_has_a_file_that_can_be_read(platform: str) -> None:
    assert all(line.reason for line in load(platform, ()).values())


def test_no_file_is_of_no_platform() -> None:
    assert all(any(path.stem == p or path.stem.startswith(f"{p}-") for p in PLATFORMS) for path in FOLDER.glob("*"))


@pytest.mark.parametrize(
    ("status", "listed", "state"),
    [
        ("pass", "", "pass"),
        ("fail", "", "fail"),
        ("skip", "", "skip"),
        ("fail", "fail", "xfail"),
        ("pass", "fail", "xpass"),
        ("crash", "fail", "crash"),
        ("crash", "crash", "xfail"),
        ("timeout", "timeout", "xfail"),
        ("skip", "fail", "skip"),
        ("fail", "flake", "flake"),
        ("crash", "flake", "flake"),
        ("pass", "flake", "pass"),
    ],
)
def test_a_state_is_the_result_under_its_expectation(status: str, listed: str, state: str) -> None:
    assert state_of(result(status), expected(listed) if listed else None) == state


def test_an_unexpected_pass_comes_with_the_lines_to_remove_and_a_new_failure_with_those_to_add() -> None:
    states = {"sort": "xpass", "conv": "crash", "dot": "pass"}
    assert diff(states, {"sort": expected("fail")}, {"conv": "SIGSEGV"}, "cpu").splitlines() == [
        "--- platforms/expectations/cpu.txt",
        "+++ platforms/expectations/cpu.txt",
        "-sort fail # the driver's bug 7",
        "+conv crash # SIGSEGV",
    ]
    assert diff({"dot": "pass"}, {}, {}, "cpu") == ""


def test_what_the_diff_adds_can_be_read_back(tmp_path: Path) -> None:
    added = [line[1:] for line in diff({"conv": "fail"}, {}, {"conv": "3 > 2"}, "cpu").splitlines()[2:]]
    (tmp_path / "cpu.txt").write_text("\n".join(added))
    assert (
        state_of(Result(Case("conv", 2, ""), "fail", 3.0, 2.0, 0.0, ""), load("cpu", (), tmp_path)["conv"]) == "xfail"
    )


def test_a_devices_line_replaces_its_platforms(tmp_path: Path) -> None:
    (tmp_path / "cuda-desktop.txt").write_text("# known\nsort fail # everywhere\n")
    (tmp_path / device_file("cuda-desktop", "NVIDIA GeForce RTX 4060 Ti")).write_text("sort flake # here\n")
    assert load("cuda-desktop", (), tmp_path)["sort"].state == "fail"
    found = load("cuda-desktop", ["NVIDIA GeForce RTX 4060 Ti"], tmp_path)["sort"]
    assert (found.state, found.file) == ("flake", "cuda-desktop-nvidia-geforce-rtx-4060-ti.txt")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sort fail", "line 1"),
        ("sort broken # why", "line 1"),
        ("sort fail #", "line 1"),
        ("sort fail # a\nsort flake # b", "line 2: sort is listed twice"),
    ],
)
def test_a_line_without_state_or_reason_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "cpu.txt").write_text(text)
    with pytest.raises(LadderError, match=says):
        load("cpu", (), tmp_path)


def test_without_its_file_a_platform_expects_nothing_and_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LadderError, match=r"no expectation file cpu\.txt"):
        load("cpu", (), tmp_path)


def test_a_line_for_no_test_is_found() -> None:
    assert unknown({"sort": expected("fail")}, ["conv"]) == [expected("fail")]
