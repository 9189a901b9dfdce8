"""What IREE cannot take is told before any data is read: which operation, where in the net, what to write instead."""

import os
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

from ladder.errors import LadderError
from ladder.lowerers import Unsupported, preflight
from ladder.lowerers.iree import compiling, targets
from ladder.lowerers.iree.locate import scope
from ladder.request import Request
from ladder.run import drive
from ladder.train.artifact import Program

CPU = targets.TARGETS["llvm-cpu"]
ByHand = Callable[[Any, tuple[Any, ...]], Program]


class Pool(nn.Module):
    """Max-pool 3x3, stride 2: the windows overlap."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.max_pool(x, (3, 3), (2, 2))


class Cnn(nn.Module):
    """One pool."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return Pool(name="pool")(x)


def test_an_overlapping_pools_gradient_is_named_with_its_place_and_its_substitute(by_hand: ByHand) -> None:
    def step(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: jnp.sum(jnp.square(jnp.asarray(Cnn().apply({}, x)))))(x)

    program = by_hand(step, (jax.ShapeDtypeStruct((2, 9, 9, 3), jnp.float32),))
    with pytest.raises(Unsupported) as told:
        preflight("iree", {}, lambda: [program])
    assert "stablehlo.select_and_scatter at Cnn/pool is not supported" in told.value.message
    assert "maxima of shifted slices" in told.value.hint


def test_the_nets_pass(program: Callable[[str], Program]) -> None:
    for net in ("linear", "cnn"):
        compiling.check_operations(program(net), CPU)


def test_another_lowerer_is_asked_nothing() -> None:
    def programs() -> list[Program]:
        raise AssertionError("no program is needed")

    preflight("xla", {}, programs)


def test_several_devices_are_not_for_iree(by_hand: ByHand) -> None:
    program = by_hand(lambda x: x + 1, (jax.ShapeDtypeStruct((2,), jnp.float32),))
    text = program.stablehlo("step").replace("mhlo.num_partitions = 1", "mhlo.num_partitions = 4")
    (program.folder / "step.mlir").write_text(text)
    with pytest.raises(
        Unsupported, match="data parallel is n/a on lowerer iree: collectives exist on the PJRT path only"
    ):
        compiling.check_operations(program, CPU)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("jit(step)/transpose(jvp(Cnn))/pool/select_and_scatter_add", "Cnn/pool"),
        ("jit(step)/jit(main)/jvp(Cnn)/conv1/conv_general_dilated", "Cnn/conv1"),
        ("jit(step)/add", ""),
    ],
)
def test_a_place_is_the_nets_scope(name: str, where: str) -> None:
    assert scope(name) == where


def test_an_absent_card_ends_a_run_before_any_data_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with pytest.raises(LadderError, match="IREE's driver 'cuda'"):
        drive(Request("mnist", nets=("linear",), platform="iree-cuda"), said.append)
    assert not any(line.startswith("data:") for line in said)
    assert os.environ.get(targets.TARGET) is None


@pytest.mark.parametrize(("platform", "lowerer"), [("iree-cpu", "xla"), ("iree-cuda", "xla")])
def test_a_contradictory_pair_is_a_usage_error(platform: str, lowerer: str) -> None:
    with pytest.raises(LadderError, match=f"platform '{platform}' is lowerer iree's") as told:
        drive(Request("mnist", platform=platform, lowerer=lowerer), lambda _: None)
    assert told.value.exit_code == 2
