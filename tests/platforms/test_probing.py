"""However a probe's child ended, the reason is in words a reader can act on."""

import os
import sys
from typing import Any, Literal

import pytest

from platforms import probing, process
from platforms.probing import Probed, trouble
from platforms.process import Ended


def probed(
    state: Literal["done", "failed", "absent", "hanging"], code: int, err: str = "", platforms: str = "", **told: Any
) -> Probed:
    return Probed(Ended(state, code, "", err, 50.0), told, platforms or None, None)


RAISED = {"stage": "start devices", "jax": "0.12"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (probed("done", 0, stage="done"), ""),
        (probed("done", 0), "it died of exit code 0 in stage 'start'"),  # a child that ran nothing is no pass
        (
            probed("hanging", -9, stage="start devices"),
            "it did not answer within 50 s and was killed, in stage 'start devices'",
        ),
        (
            probed("failed", -6, "\n\nF0000 boom\n", stage="compute"),
            "it died of signal SIGABRT in stage 'compute': F0000 boom",
        ),
        (probed("failed", -11, stage="compute"), "it died of signal SIGSEGV in stage 'compute'"),
        (probed("failed", -35, stage="compute"), "it died of signal 35 in stage 'compute'"),
        (
            probed(
                "failed", 1, stage="import iree.runtime", exception={"type": "ModuleNotFoundError", "text": "No module"}
            ),
            "stage 'import iree.runtime' failed: No module",
        ),
        (
            probed("failed", 1, **RAISED, platforms="x", exception={"type": "AssertionError", "text": ""}),
            "JAX_PLATFORMS=x, and jax ends with an empty AssertionError: nothing installed provides that",
        ),
        (
            probed(
                "failed",
                1,
                **RAISED,
                platforms="x",
                plugins=["xla_x"],
                exception={"type": "AssertionError", "text": ""},
            ),
            "JAX_PLATFORMS=x, and jax ends with an empty AssertionError: "
            "plugin 'xla_x' is installed but started no device: jax gives no reason",
        ),
        (
            probed("failed", 1, **RAISED, exception={"type": "RuntimeError", "text": "no\nmore"}),
            "JAX_PLATFORMS is not set, and stage 'start devices' ended with RuntimeError: no",
        ),
        (
            probed("failed", 1, stage="compute", exception={"type": "RuntimeError", "text": "cudaErrorNoKernelImage"}),
            "stage 'compute' ended with RuntimeError: cudaErrorNoKernelImage",
        ),
    ],
)
def test_the_reason_is_in_words(found: Probed, words: str) -> None:
    assert trouble(found) == words


def test_a_plugin_whose_backend_failed_is_idle_for_that_reason() -> None:
    found = probed("done", 0, stage="done", plugins=["xla_x12"], errors={"x": "no driver", "tpu": "no library"})
    assert probing.idle(found) == ["plugin 'xla_x12' is installed but started no device: no driver"]


@pytest.mark.parametrize(
    ("environ", "count"),
    [
        ({}, 0),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, 4),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}, 0),
        ({"XLA_FLAGS": "--xla_dump_to=x --xla_force_host_platform_device_count=2"}, 2),
        ({"JAX_NUM_CPU_DEVICES": "3"}, 3),
        ({"JAX_NUM_CPU_DEVICES": "many"}, 0),
    ],
)
def test_virtual_devices_are_counted(environ: dict[str, str], count: int) -> None:
    assert probing.virtual_devices(environ) == count


def test_a_command_gets_only_the_environment_it_is_given_and_its_output_is_told_without_secrets() -> None:
    code = "import os; print(os.environ.get('HOME'), os.environ['MY_TOKEN'])"
    ended = process.run([sys.executable, "-c", code], 60, {"PATH": os.environ["PATH"], "MY_TOKEN": "hunter22"})
    assert (ended.state, ended.out) == ("done", "None ***\n")


def test_a_child_that_hangs_on_a_crowded_box_is_to_be_tried_again() -> None:
    cores, hung = os.cpu_count() or 1, probed("hanging", -9, stage="import jax")
    said = probing.crowded(hung, 10.0 * cores)
    assert said == f"ladder doctor again when the box is less busy: its load is {10 * cores} on {cores} cores"
    assert probing.crowded(hung, 1.0 * cores) == ""
    assert probing.crowded(probed("failed", -6), 10.0 * cores) == ""
