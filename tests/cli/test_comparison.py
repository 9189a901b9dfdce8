"""Two manifests side by side: which half changed, so where to look, and when that is less sure than it seems."""

from typing import Any

from ladder.cli.comparison import compare

PLATFORM = {
    "driver": "575.57.08",
    "system_stack": "7.2.0",
    "packages": {"jax": "0.11.0"},
    "plugins": {"jax-rocm7": "1"},
}
CORE = {"commit": "c" * 40, "dirty": False}


def run(name: str = "a", box: str = "ares", **halves: Any) -> dict[str, Any]:
    manifest = {"core": CORE, "platform": PLATFORM, **halves}
    facts = {"uuid": name, "platform": "rocm", "lowerer": "xla", "state": "complete", "word": "pass"}
    return {"name": name, "box": box, **facts, "trials": [], "manifest": manifest}


def changed(**second: Any) -> dict[str, Any]:
    return compare(run(), run("b", **second))


def test_a_changed_driver_points_at_the_platform() -> None:
    found = changed(platform={**PLATFORM, "driver": "610"})
    assert found["changed"] == {"core": {}, "platform": {"driver": ["575.57.08", "610"]}}
    assert found["where"] == "core is equal and platform changed: look at the driver, the plugin or the box"


def test_two_runs_that_differ_in_the_system_stack_only_are_shown_so() -> None:
    """A newer wheel on an older stack: it took its finder two days."""
    found = changed(platform={**PLATFORM, "system_stack": "7.2.4"})
    assert found["changed"]["platform"] == {"system_stack": ["7.2.0", "7.2.4"]}
    assert found["but"] == []


def test_a_plugin_that_went_has_changed() -> None:
    found = changed(platform={**PLATFORM, "plugins": {}})
    assert found["changed"]["platform"] == {"plugins.jax-rocm7": ["1", None]}


def test_a_fact_that_an_older_ladder_did_not_write_has_not_changed() -> None:
    found = changed(platform={**PLATFORM, "virtual_devices": 0})
    assert found["changed"]["platform"] == {}
    assert found["unrecorded"] == {"core": [], "platform": ["virtual_devices"]}
    assert found["where"].startswith("core and platform are equal")


def test_equal_commits_with_uncommitted_changes_are_not_sure_to_be_equal() -> None:
    dirty = {**CORE, "dirty": True}
    found = compare(run(core=dirty), run("b", core=dirty))
    assert found["changed"]["core"] == {}
    assert found["but"] == ["uncommitted changes were there in a and b: core may differ all the same"]


def test_runs_of_two_boxes_are_said_to_be() -> None:
    assert changed(box="mars")["but"] == [
        "the runs are of two boxes, ares and mars: compare with a run on the same box"
    ]


def test_runs_without_recipes_or_data_are_compared() -> None:
    """A suite trains nothing."""
    found = changed()
    assert (found["recipes"], found["data"], found["finals"]) == ({}, True, [])
