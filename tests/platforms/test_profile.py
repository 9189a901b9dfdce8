"""Profiles are data that a launcher applies, and a manifest tells no paths and no secrets."""

import json
import re
from pathlib import Path

import pytest

from platforms import manifest, profile
from platforms.detect import Detection, Device


def test_every_profile_loads_under_its_own_name_and_says_why_for_each_variable() -> None:
    assert "cpu" in profile.names()
    for name in profile.names():
        loaded = profile.load(name)
        assert loaded.name == name
        assert loaded.environment.keys() == loaded.why.keys()
        assert all(loaded.why.values())


PLATFORMS = ["cpu", "cuda-desktop", "cuda-tegra", "iree-cpu", "iree-cuda", "iree-rocm", "metal", "rocm", "xpu"]
REPO = Path(__file__).parents[2]


def test_every_platform_of_the_design_has_a_profile() -> None:
    assert profile.names() == PLATFORMS


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_profile_has_a_runbook_a_script_and_a_way_to_be_detected(name: str) -> None:
    p = profile.load(name)
    assert (REPO / p.runbook).is_file()
    assert (REPO / p.setup).is_file()
    assert p.lowerer in ("xla", "iree")
    assert bool(p.driver) == (p.lowerer == "iree")
    assert p.detect.everywhere or p.detect.tools
    assert p.detect.everywhere or p.unknown  # nothing but a CPU was tried by this software
    for tool in p.detect.tools:
        assert "name" in re.compile(tool.device).groupindex
    assert all(p.not_applicable.values())
    assert p.not_applicable.keys() <= {"suite", "mnist", "cifar", "imagenette", "imagenet"}
    for triple in p.triples:
        assert triple.plugin.split("==")[0] in p.plugins
        assert triple.seen


def test_a_pitfall_of_each_stack_is_in_its_environment() -> None:
    tegra, rocm = profile.load("cuda-tegra"), profile.load("rocm")
    assert tegra.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == ".25"
    assert rocm.environment["XLA_FLAGS"] == "--xla_gpu_enable_command_buffer="
    for name in PLATFORMS:
        assert not profile.load(name).environment.get("JAX_PLATFORMS", "").endswith(",cpu")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("slots = 1 ", "slotz = 1 ", "slotz is no key of a profile"),
        ("slots = 1 ", "# ", "slots is missing"),
        ("slots = 1 ", "slots = '1' ", "slots is '1', not int"),
        ("slots = 1 ", "slots = true ", "slots is True, not int"),
        ("everywhere = true", "everywere = true", "detect.everywere is no key of a profile"),
        ("why = ", "# ", "variables.GLIBC_TUNABLES.why is missing"),
        ("plugins = []", "plugins = ['a', 1]", "plugins[1] is 1, not str"),
        ('name = "cpu"', 'name = "cpv"', "name is 'cpv'"),
        ("[detect]\n", "[detect]\ntools = [{ command = ['x'], devices = '' }]\n", "detect.tools[0].devices is no key"),
    ],
)
def test_a_broken_profile_names_its_file_and_key(
    old: str, new: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (profile.FOLDER / "cpu.toml").read_text()
    assert old in text
    head, _, tail = text.rpartition(old)
    (tmp_path / "cpu.toml").write_text(head + new + tail)
    monkeypatch.setattr(profile, "FOLDER", tmp_path)
    with pytest.raises(profile.UnknownProfile) as error:
        profile.load("cpu")
    assert str(error.value).startswith(f"platform 'cpu' cannot be read from cpu.toml: {told}")


def test_the_cpu_profile_pins_jax_to_the_cpu() -> None:
    assert profile.load("cpu").environment["JAX_PLATFORMS"] == "cpu"


def test_an_unknown_profile_is_told_with_those_there_are() -> None:
    with pytest.raises(profile.UnknownProfile, match=r"no platform 'cuda-9'; the platforms are: cpu"):
        profile.load("cuda-9")


def test_the_manifest_holds_no_path_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    told = json.dumps([manifest.core(Path(__file__).parents[2]), manifest.box(profile.load("cpu"))])
    assert "hunter2" not in told
    assert str(Path.home()) not in told
    assert str(Path(__file__).parents[2]) not in told


def test_the_manifest_tells_devices_driver_and_the_stack_that_belongs_together() -> None:
    card = Device("NVIDIA GeForce RTX 4090", "580.159.04", "24564 MiB")
    told = manifest.box(profile.load("cuda-desktop"), Detection(True, "nvidia-smi lists 2", (card, card)))
    assert told["devices"] == ["NVIDIA GeForce RTX 4090"] * 2
    assert told["driver"] == "580.159.04"
    assert told["triple"].keys() >= {"jax", "jaxlib"}
    assert told["detected"] == "nvidia-smi lists 2"


def test_the_manifest_counts_virtual_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert manifest.box(profile.load("cpu"))["virtual_devices"] == 0
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    assert manifest.box(profile.load("cpu"))["virtual_devices"] == 4


def test_outside_a_checkout_the_commit_is_unknown_and_says_so(tmp_path: Path) -> None:
    core = manifest.core(tmp_path)
    assert (core["commit"], core["dirty"]) == ("unknown", "unknown")
