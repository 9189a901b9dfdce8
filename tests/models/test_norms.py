"""Norms: against float64 NumPy, the running rule of the recipes, and where the usual one-pass variance fails."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.norms import BatchNorm, ExampleNorm, LayerNorm

SHAPE = (4, 6, 6, 5)
NORMS: dict[str, tuple[nn.Module, tuple[Any, ...], tuple[int, ...], float]] = {
    "example": (ExampleNorm(), (), (1, 2), 1e-5),
    "batch": (BatchNorm(), (True,), (0, 1, 2), 1e-5),
    "layer": (LayerNorm(1e-6), (), (3,), 1e-6),
}


def drawn(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def numpy_norm(x: np.ndarray, axes: tuple[int, ...], eps: float, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps) * gamma + beta


def run(name: str, x: Any, gamma: Any, beta: Any) -> Any:
    net, arguments, *_ = NORMS[name]
    variables: Any = net.init(jax.random.key(0), jnp.zeros(SHAPE), *arguments)
    variables = {**variables, "params": {"gamma": gamma, "beta": beta}}
    return net.apply(variables, x, *arguments, mutable=["stats"])[0]


@pytest.mark.parametrize("name", NORMS)
def test_value_and_gradient_are_float64s(name: str) -> None:
    """The gradient against central differences of NumPy's float64, at seeded places."""
    *_, axes, eps = NORMS[name]
    x, gamma, beta, weight = drawn(1) * 3 + 1, drawn(2, (5,)), drawn(3, (5,)), drawn(4)

    def reference(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> float:
        return float(np.sum(numpy_norm(x, axes, eps, gamma, beta) * weight))

    with jax.enable_x64(True):
        np.testing.assert_allclose(run(name, x, gamma, beta), numpy_norm(x, axes, eps, gamma, beta), rtol=1e-12)
        found = jax.grad(lambda *a: jnp.sum(run(name, *a) * weight), (0, 1, 2))(x, gamma, beta)
    for at, (gradient, value) in enumerate(zip(found, (x, gamma, beta), strict=True)):
        for place in np.random.default_rng(5).integers(0, value.size, 5):
            step = np.zeros(value.size)
            step[place] = 1e-5
            moved = [[*(x, gamma, beta)] for _ in range(2)]
            moved[0][at], moved[1][at] = value + step.reshape(value.shape), value - step.reshape(value.shape)
            slope = (reference(*moved[0]) - reference(*moved[1])) / 2e-5
            assert np.asarray(gradient).ravel()[place] == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", NORMS)
def test_variance_far_from_zero_is_two_pass(name: str) -> None:
    """Mean 1000, deviation 0.1: E[x²] − E[x]² in float32 has no digit left of the variance 0.01."""
    x = (1000 + 0.1 * drawn(1)).astype(np.float32)
    *_, axes, eps = NORMS[name]
    want = numpy_norm(x.astype(np.float64), axes, eps, np.ones(5), np.zeros(5))
    rounded = 8 * np.spacing(np.float32(1000)) / 0.1  # of the mean: a float32 sum of thousands, over the deviation
    np.testing.assert_allclose(run(name, x, jnp.ones(5), jnp.zeros(5)), want, rtol=0, atol=rounded)
    one_pass = np.mean(x**2, axes, dtype=np.float32) - np.mean(x, axes, dtype=np.float32) ** 2
    assert np.max(np.abs(one_pass - x.astype(np.float64).var(axes))) > 0.01


@pytest.mark.parametrize("name", NORMS)
def test_bfloat16_is_normalised_in_float32(name: str) -> None:
    x = jnp.asarray(drawn(1), jnp.bfloat16)
    out = run(name, x, jnp.ones(5), jnp.zeros(5))
    assert out.dtype == jnp.float32
    assert np.array_equal(out, run(name, x.astype(jnp.float32), jnp.ones(5), jnp.zeros(5)))


def test_running_statistics_take_the_first_batch_then_move_by_a_hundredth() -> None:
    net = BatchNorm()
    variables: Any = net.init(jax.random.key(0), jnp.zeros(SHAPE), False)
    assert int(variables["stats"]["seen"]) == 0
    batches = [drawn(k) * (k + 1) + k for k in range(3)]
    mean, var = batches[0].mean((0, 1, 2)), batches[0].var((0, 1, 2))
    for k, batch in enumerate(batches):
        if k:
            mean = 0.99 * mean + 0.01 * batch.mean((0, 1, 2))
            var = 0.99 * var + 0.01 * batch.var((0, 1, 2))  # biased
        _, moved = net.apply(variables, jnp.asarray(batch, jnp.float32), True, mutable=["stats"])
        variables = {**variables, **moved}
        np.testing.assert_allclose(variables["stats"]["mean"], mean, rtol=1e-5)
        np.testing.assert_allclose(variables["stats"]["var"], var, rtol=1e-5)
    assert int(variables["stats"]["seen"]) == 1
    x = drawn(9).astype(np.float32)
    evaluated: Any = net.apply(variables, x, False)  # no mutable collection: evaluation moves nothing
    np.testing.assert_allclose(evaluated, (x - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)


def test_example_norm_does_not_see_the_other_examples() -> None:
    x = drawn(1).astype(np.float32)
    alone = run("example", x[:1], jnp.ones(5), jnp.zeros(5))
    np.testing.assert_allclose(run("example", x, jnp.ones(5), jnp.zeros(5))[:1], alone, rtol=1e-6, atol=1e-6)
    others = run("batch", x[:1], jnp.ones(5), jnp.zeros(5)) - run("batch", x, jnp.ones(5), jnp.zeros(5))[:1]
    assert np.max(np.abs(others)) > 0.01
