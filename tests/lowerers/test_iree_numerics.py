"""How IREE sums, in the smallest StableHLO that shows it (upstream/): a version that sums otherwise turns these red.

Then measure again, rewrite the note in upstream/ and `python -m ladder.ties.calibrate`.
"""

from importlib.metadata import version
from pathlib import Path

import iree.compiler
import iree.runtime
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

UPSTREAM = Path(__file__).resolve().parents[2] / "upstream"
LONG = 100_352  # 128 images of 28 x 28: what a convolution's bias and weight gradients sum over
LEVEL = ("--iree-opt-level=O1",)
TILING = (
    *LEVEL,
    "--iree-opt-data-tiling",
    "--iree-llvmcpu-enable-ukernels=all",
    "--iree-llvmcpu-stack-allocation-limit=1mib",
)


def run(module: str, *args: np.ndarray, flags: tuple[str, ...] = LEVEL) -> np.ndarray:
    """An upstream/ module through IREE on the CPU, as float64."""
    code = iree.compiler.compile_file(
        str(UPSTREAM / module),
        input_type="stablehlo",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", *flags],
    )
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, code))
    return np.asarray(context.modules.module["main"](*args).to_host()).astype(np.float64)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, ml_dtypes.bfloat16)


def error(value: np.ndarray, exact: float) -> float:
    return float(np.abs(value / exact - 1).max())


def test_bf16_ones_are_summed_in_bf16_and_stop_at_256() -> None:
    """bf16 has 8 significant bits, so that 256 + 1 is 256."""
    assert run("iree-bf16-sums/reduce.mlir", ones(1024, 2)).tolist() == [256, 256]
    xla = lax.reduce(jnp.ones((1024, 2), jnp.bfloat16), jnp.bfloat16(0), lax.add, (0,))
    assert np.asarray(xla).tolist() == [1024, 1024]


def test_a_bf16_dot_accumulates_in_bf16_unless_it_is_asked_for_f32_or_tiled() -> None:
    a = ones(16384, 8)
    assert set(run("iree-bf16-sums/dot.mlir", a, a).flat) == {4096}
    assert run("iree-bf16-sums/dot.mlir", a, a, flags=TILING).tolist() == np.full((8, 8), 16384).tolist()
    assert run("iree-bf16-sums/dot_f32.mlir", a, a).tolist() == np.full((8, 8), 16384).tolist()
    wide = jnp.ones((16384, 8), jnp.bfloat16)
    assert float(jnp.matmul(wide.T, wide).min()) == 16384


def test_a_bf16_weight_gradient_stops_at_256() -> None:
    a = ones(64, 8, 8, 8)
    assert set(run("iree-bf16-sums/convolution.mlir", a, a)[1, 1].flat) == {256}
    im2col = (*LEVEL, "--iree-global-opt-use-im2col-for-convs")
    assert set(run("iree-bf16-sums/convolution.mlir", a, a, flags=im2col)[1, 1].flat) == {4096}


@pytest.mark.parametrize("op", ["reduce", "dot"])
def test_long_f32_sums_are_taken_one_after_another_and_in_two_stages_are_better(op: str) -> None:
    """f32(0.1), 100,352 times: the partial sums are rounded to 2^-10 at the end, where one after another."""
    exact = float(np.float64(np.float32(0.1)) * LONG)
    args = [np.full((LONG, 2), 0.1, np.float32)]
    if op == "dot":
        args = [np.full((LONG, 8), 0.1, np.float32), np.ones((LONG, 8), np.float32)]
    one_by_one = run(f"iree-f32-long-sums/{op}.mlir", *args)
    in_two = run(f"iree-f32-long-sums/{op}_in_two.mlir", *args)
    assert 1e-4 < error(one_by_one, exact) < 2e-4
    sequential = np.float32(np.cumsum(np.full(LONG, 0.1, np.float32), dtype=np.float32)[-1])
    assert one_by_one.flat[0] == sequential
    assert error(in_two, exact) < 1e-5
    summed = jax.jit(lambda *xs: jnp.sum(xs[0], axis=0) if op == "reduce" else xs[0].T @ xs[1])(*args)
    assert error(np.asarray(summed, np.float64), exact) < 5e-6


def test_a_stable_sort_does_not_keep_the_order_of_equal_keys() -> None:
    keys = np.array([1, 0] * 4, np.float32)
    places = run("iree-unstable-sort/sort.mlir", keys)
    assert places.tolist() == [1, 5, 3, 7, 0, 2, 4, 6]
    assert np.asarray(jnp.argsort(jnp.asarray(keys), stable=True)).tolist() == [1, 3, 5, 7, 0, 2, 4, 6]


def test_the_notes_are_about_the_installed_version() -> None:
    for note in ("iree-bf16-sums", "iree-f32-long-sums", "iree-unstable-sort"):
        assert version("iree-base-compiler") in (UPSTREAM / note / "README.md").read_text()
