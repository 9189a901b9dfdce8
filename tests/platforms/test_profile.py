"""Profiles are data that a launcher applies, and a manifest tells no paths and no secrets."""

import json
from pathlib import Path

import pytest

from platforms import manifest, profile


def test_every_profile_loads_under_its_own_name_and_says_why_for_each_variable() -> None:
    assert "cpu" in profile.names()
    for name in profile.names():
        loaded = profile.load(name)
        assert loaded.name == name
        assert loaded.environment.keys() == loaded.why.keys()
        assert all(loaded.why.values())


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


def test_outside_a_checkout_the_commit_is_unknown_and_says_so(tmp_path: Path) -> None:
    core = manifest.core(tmp_path)
    assert (core["commit"], core["dirty"]) == ("unknown", "unknown")
