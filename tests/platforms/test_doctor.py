"""The doctor: no silent CPU, idle plugin, misspelt or late flag goes unnamed; however a child ends is an answer."""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from platforms import detect, doctor, probing, profile
from platforms.doctor import Check, Examination
from platforms.probing import Probed
from platforms.process import Ended
from tests.platforms.conftest import Fake, Install

CLEAN = {k: v for k, v in os.environ.items() if k not in ("JAX_PLATFORMS", "XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
SLOW_BOX_S = 200.0


def examine(platform: str | None, environ: Mapping[str, str] | None = None, **changed: str) -> Examination:
    """With real children: this box has no accelerator."""
    return doctor.examine(platform, {**CLEAN, **(environ or {}), **changed}, probe_s=SLOW_BOX_S)


def check(found: Examination, name: str) -> Check:
    checks = [*found.shell, *(c for report in found.reports for c in report.checks)]
    return next(c for c in checks if c.name == name)


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """plugin(body): the variables that bring a jax plugin named `dud`, whose initialize() has this body."""

    def make(body: str) -> dict[str, str]:
        folder = tmp_path / "plugins" / "jax_plugins" / "dud"
        folder.mkdir(parents=True)
        lines = "\n    ".join(body.splitlines())
        (folder / "__init__.py").write_text(f"import os, time\ndef initialize():\n    {lines}\n")
        return {"PYTHONPATH": str(tmp_path / "plugins")}

    return make


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """given(devices=…): what every probe finds, without a child."""

    def set_(devices: list[dict[str, str]], **told: object) -> None:
        ended = Ended("done", 0, "", "", 1.0)
        found = Probed(
            ended, {"stage": "done", "devices": devices, "error": 1e-7, "ran_on": ["x:0"], **told}, None, None
        )
        monkeypatch.setattr(probing, "probe", lambda *_: found)

    return set_


CARD = {"id": "gpu:0", "kind": "a card", "platform": "gpu"}
CORES = {"id": "cpu:0", "kind": "cpu", "platform": "cpu"}


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("", "JAX_PLATFORMS is not set: jax chose cpu:0 without a word: nothing installed provides 'cuda'"),
        (
            "cuda,cpu",
            "JAX_PLATFORMS=cuda,cpu: jax fell back to cpu:0 without a word: nothing installed provides 'cuda'",
        ),
        ("cuda", "JAX_PLATFORMS=cuda, and jax ends with an empty AssertionError: nothing installed provides that"),
        ("rocm,cpu", "JAX_PLATFORMS=rocm,cpu, and stage 'start devices' ended with RuntimeError: Unable to initialize"),
    ],
)
def test_no_silent_cpu(setting: str, reason: str) -> None:
    found = examine("cuda-desktop", {"JAX_PLATFORMS": setting} if setting else None)
    shell = check(found, "shell")
    assert (shell.level, shell.next) == ("FAIL", "bash deploy/cuda-desktop.sh")
    assert shell.detail.startswith(reason)
    assert check(found, "runs").level == "FAIL"
    assert not found.healthy
    assert json.loads(json.dumps(found.to_json()))["healthy"] is False


def test_an_installed_plugin_that_does_not_start_is_not_a_cpu(plugin: Callable[[str], dict[str, str]]) -> None:
    found = examine(None, plugin("raise RuntimeError('no driver for dud')"))
    assert not found.healthy
    assert check(found, "shell").level == "FAIL"
    assert "plugin 'dud' is installed but started no device: no driver for dud" in check(found, "shell").detail


def test_an_idle_plugin_of_a_known_platform_points_at_it(install: Install, given: Callable[..., None]) -> None:
    install({"jax-cuda12-plugin": "0.12.0.1"})
    given([CORES], plugins=["xla_cuda12"])
    shell = check(doctor.examine(None, CLEAN), "shell")
    assert (shell.level, shell.next) == ("FAIL", "ladder doctor --platform cuda-desktop or cuda-tegra")


def test_an_idle_plugin_is_a_warning_where_a_cpu_is_what_was_asked_for(given: Callable[..., None]) -> None:
    given([CORES], plugins=["dud"])
    assert check(doctor.examine("cpu", CLEAN), "shell").level == "WARN"
    assert check(doctor.examine(None, CLEAN), "shell").level == "FAIL"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (
            "--xla_gpu_deterministic_opz=true",
            "XLA_FLAGS has --xla_gpu_deterministic_opz=true, which this jaxlib does not",
        ),
        (
            "--xla_gpu_autotune_level=banana",
            "XLA_FLAGS gives --xla_gpu_autotune_level the value 'banana', which is none",
        ),
        ("xla_gpu_autotune_level=4", "XLA_FLAGS is 'xla_gpu_autotune_level=4', taken for a file's name"),
    ],
)
def test_a_misspelt_flag_is_named(flags: str, named: str) -> None:
    found = examine("cpu", XLA_FLAGS=flags)
    assert not found.healthy
    assert check(found, "shell").detail.startswith(named)
    assert check(found, "shell").next == "unset XLA_FLAGS"
    assert check(found, "runs").level == "FAIL"


def test_a_flag_set_too_late_is_named(tmp_path: Path) -> None:
    """Start-up code that starts jax and sets the flag afterwards: jax ignores it."""
    flag = "--xla_force_host_platform_device_count=4"
    start_up = f"import os, jax\njax.devices()\nos.environ['XLA_FLAGS'] = '{flag}'\n"
    (tmp_path / "sitecustomize.py").write_text(start_up)
    flags = check(examine("cpu", PYTHONPATH=str(tmp_path)), "flags")
    assert flags.level == "FAIL"
    assert flags.detail == f"XLA_FLAGS={flag} was set too late: Python's start-up had started jax before"


def test_a_flag_that_a_plugin_sets_is_named(plugin: Callable[[str], dict[str, str]]) -> None:
    flags = check(examine("cpu", plugin("os.environ['XLA_FLAGS'] = '--xla_cpu_enable_fast_math=false'")), "flags")
    assert flags.level == "WARN"
    assert "while jax started its plugins" in flags.detail


def test_a_child_that_aborts_is_a_result(plugin: Callable[[str], dict[str, str]]) -> None:
    found = examine("cpu", plugin("os.abort()"))
    assert check(found, "runs").detail.startswith("it died of signal SIGABRT in stage 'start devices'")
    assert not found.healthy


def test_a_child_that_hangs_is_a_result(plugin: Callable[[str], dict[str, str]]) -> None:
    start = time.monotonic()
    found = doctor.examine("cpu", {**CLEAN, **plugin("time.sleep(300)")}, probe_s=8.0)
    assert time.monotonic() - start < 40
    assert re.match(r"it did not answer within 8 s and was killed, in stage '", check(found, "runs").detail)


def test_a_jax_that_cannot_be_imported_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise ImportError('libfoo.so.1: cannot open shared object file')")
    found = examine("cpu", PYTHONPATH=str(tmp_path))
    assert check(found, "runs").detail == "stage 'import jax' failed: libfoo.so.1: cannot open shared object file"


def test_virtual_devices_never_count(given: Callable[..., None]) -> None:
    environ = {**CLEAN, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    found = doctor.examine("cpu", environ, need=2, probe_s=SLOW_BOX_S)
    assert check(found, "count").detail == "2 devices are needed; found 1; 2 virtual devices do not count"
    assert not found.healthy
    given([CORES, {**CORES, "id": "cpu:1"}])
    found = doctor.examine("cpu", CLEAN)
    assert found.healthy
    assert check(found, "count").level == "WARN"


def test_virtual_devices_are_no_accelerators(given: Callable[..., None]) -> None:
    given([CORES, {**CORES, "id": "cpu:1"}])
    found = doctor.examine("cuda-desktop", CLEAN, need=2)
    assert check(found, "count").detail == "2 devices are needed; found 0; 2 virtual devices do not count"


def test_this_box_is_a_healthy_cpu_and_the_rest_is_not_here() -> None:
    found = examine(None)
    states = {report.platform: report.state for report in found.reports}
    assert found.healthy
    assert states["cpu"] == "ready"
    assert set(states) == set(profile.names())
    assert {states[name] for name in ("cuda-desktop", "cuda-tegra", "rocm", "xpu", "metal")} == {"not here"}
    assert all(report.reason for report in found.reports)


def test_a_card_that_works_is_ready(fake: Fake, install: Install, given: Callable[..., None]) -> None:
    fake("nvidia-smi", "echo 'NVIDIA GeForce RTX 4090, 580.159.04, 24564 MiB'")
    install(dict.fromkeys(("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt"), "0.11.1"))
    given([CARD])
    found = doctor.examine("cuda-desktop", CLEAN)
    assert found.healthy
    assert [c.level for c in found.reports[0].checks] == ["OK", "OK", "OK"]
    assert found.reports[0].devices == (CARD,)


def test_a_card_without_its_plugin_is_here_but_not_set_up(fake: Fake, given: Callable[..., None]) -> None:
    """Which is no failure while nobody asked for it, and never silent."""
    fake("nvidia-smi", "echo 'NVIDIA GeForce RTX 4090, 580.159.04, 24564 MiB'")
    given([CORES])
    found = doctor.examine(None, CLEAN)
    report = next(r for r in found.reports if r.platform == "cuda-desktop")
    assert (report.state, report.checks[0].level) == ("not set up", "WARN")
    assert report.checks[0].next == "bash deploy/cuda-desktop.sh"


@pytest.mark.parametrize("script", ["exit 9", "exit 0", "echo gibberish"])
def test_a_sick_tool_is_a_failure_unless_the_runtime_starts_the_device(
    script: str, fake: Fake, given: Callable[..., None]
) -> None:
    fake("nvidia-smi", script)
    given([CARD])
    assert check(doctor.examine("cuda-desktop", CLEAN), "device").level == "WARN"
    given([CORES])
    assert check(doctor.examine("cuda-desktop", CLEAN), "device").level == "FAIL"


@pytest.mark.parametrize(("error", "level"), [(1e-6, "OK"), (2.9e-4, "FAIL"), (float("nan"), "FAIL")])
def test_a_wrong_product_fails(error: float, level: str, given: Callable[..., None]) -> None:
    """2.9e-4 is what TF32 rounding gives where full precision was asked for."""
    given([CARD], error=error)
    assert check(doctor.examine("cuda-desktop", CLEAN), "runs").level == level


def test_variables_that_hide_or_contradict_are_named(given: Callable[..., None]) -> None:
    given([CARD])
    found = doctor.examine("cuda-desktop", {**CLEAN, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cuda,cpu"})
    assert check(found, "visible").detail == "CUDA_VISIBLE_DEVICES= hides every device"
    assert "this shell has JAX_PLATFORMS=cuda,cpu; a run sets JAX_PLATFORMS=cuda" in check(found, "variables").detail


def test_an_old_system_stack_is_a_warning(install: Install, tmp_path: Path, given: Callable[..., None]) -> None:
    folder = tmp_path / "opt/rocm/.info"
    folder.mkdir(parents=True)
    (folder / "version").write_text("7.2.0\n")
    install({"jax-rocm10-pjrt": "0.11.1+rocm10.1.0"})
    given([CARD])
    found = doctor.examine("rocm", CLEAN, root=tmp_path)
    assert check(found, "system stack").level == "WARN"
    assert "older than the 10.1.0 that the plugin is for" in check(found, "system stack").detail


def test_secrets_never_reach_a_report(
    fake: Fake, plugin: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool and a plugin that print the whole environment, and a variable that is shown and holds a password."""
    secrets = {
        "HF_TOKEN": "hf_canary_1",
        "AWS_SECRET_ACCESS_KEY": "canary2/xyz",
        "LADDER_DATABASE_URL": "pg://u:canary3@h",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    fake("nvidia-smi", "env; exit 3")
    environ = {**plugin("raise RuntimeError(str(dict(os.environ)))"), **secrets}
    found = examine("cuda-desktop", environ, XLA_FLAGS="--xla_dump_to=ftp://me:canary4@host")
    told = json.dumps(found.to_json()) + repr(found)
    assert "XLA_FLAGS" in told
    assert "canary" not in told.replace(json.dumps("canary"), "")


def test_the_words_are_vendor_neutral() -> None:
    """Brands stand in the profiles, which are data; the code that words a report has none."""
    brands = re.compile(r"nvidia|\bamd\b|intel|apple|cuda|rocm|oneapi|metal\b|geforce|radeon", re.IGNORECASE)
    for file in (doctor, detect, probing):
        assert file.__file__
        assert not brands.findall(Path(file.__file__).read_text()), file.__name__


def test_the_deadlines_add_up_to_less_than_seventy_seconds() -> None:
    """Tools are asked side by side, then probes side by side."""
    assert detect.TOOL_S + doctor.PROBE_S < 65
