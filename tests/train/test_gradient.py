"""The cifar net and its norms: gradients of either variant against float64, statistics by the published rule."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.cifar8 import Cifar8
from models.layers import MATMUL_SIDE, Conv3x3
from models.norms import BatchNorm

DRAW = np.random.default_rng(0)
IMAGES, LABELS = DRAW.random((6, 32, 32, 3)), np.arange(6) % 10


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    return DRAW.normal(0, 1 / np.sqrt(max(np.prod(shape[:-1]), 1)), shape)


@pytest.fixture(scope="module")
def params() -> dict[str, dict[str, np.ndarray]]:
    """A head of width 16, so that no tensor is large; in float64."""
    shapes = jax.eval_shape(Cifar8(norm="example", width=16).init, jax.random.key(0), np.float32(IMAGES))["params"]
    return jax.tree.map(lambda leaf: drawn(leaf.shape), shapes)


def gradients(net: Cifar8, params: dict[str, dict[str, np.ndarray]], dtype: type) -> dict[str, dict[str, np.ndarray]]:
    """Of the mean cross-entropy, by parameter."""
    kept = {k: v for k, v in params.items() if net.norm != "none" or not k.startswith("norm")}
    own = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), kept)
    stats = net.init(jax.random.key(0), jnp.asarray(IMAGES, dtype)).get("stats", {})

    def loss(params: dict[str, dict[str, jax.Array]]) -> jax.Array:
        variables = {"params": params, **({"stats": stats} if stats else {})}
        logits, _ = net.apply(variables, jnp.asarray(IMAGES, dtype), train=True, mutable=["stats"])
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), LABELS[:, None], 1))

    return jax.tree.map(np.asarray, jax.jit(jax.grad(loss))(own))


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["none", "example", "batch"])
def test_float32_gradients_of_both_variants_are_those_of_float64(
    norm: str, params: dict[str, dict[str, np.ndarray]]
) -> None:
    with jax.enable_x64(True):
        wanted = gradients(Cifar8(norm=norm, width=16, dtype="float64"), params, np.float64)
    for variant in ("plain", "matmul-gradient"):
        found = gradients(Cifar8(variant=variant, norm=norm, width=16), params, np.float32)
        for layer, leaves in wanted.items():
            for name, leaf in leaves.items():
                assert leaf.dtype == np.float64
                if norm != "none" and layer.startswith("conv") and name == "bias":
                    continue  # a norm takes any bias away: its gradient is rounding
                difference = abs(found[layer][name] - leaf).max()
                assert difference < 1e-4 * abs(leaf).max(), f"{variant} {layer}/{name}"


@pytest.mark.parametrize(("channels", "features"), [(1, 32), (3, 16), (16, 16), (8, 4)])
def test_the_matmul_weight_gradient_is_the_convolutions(channels: int, features: int) -> None:
    x = np.float32(DRAW.normal(size=(2, MATMUL_SIDE, MATMUL_SIDE + 2, channels)))
    out = np.float32(DRAW.normal(size=(2, MATMUL_SIDE, MATMUL_SIDE + 2, features)))

    def gradient(variant: str) -> np.ndarray:
        conv = Conv3x3(features, variant)
        variables = conv.init(jax.random.key(0), x)

        def loss(variables: Any) -> jax.Array:
            return jnp.sum(jnp.asarray(conv.apply(variables, x)) * out)

        return np.asarray(jax.grad(loss)(variables)["params"]["kernel"])

    plain, ours = gradient("plain"), gradient("matmul-gradient")
    assert abs(plain).max() > 0
    np.testing.assert_allclose(ours, plain, atol=1e-5 * abs(plain).max())


def test_batch_statistics_run_by_the_published_rule_and_the_first_step_takes_the_batchs() -> None:
    """reference/recipes.md section 3: running = .99 old + .01 new; evaluation uses the running ones."""
    norm, batches = BatchNorm(keep=0.99, eps=1e-5), DRAW.normal(3, 2, (3, 5, 4, 4, 2))
    variables: Any = norm.init(jax.random.key(0), np.float32(batches[0]), False)
    mean = var = np.zeros(2)
    train = jax.jit(lambda variables, x: norm.apply(variables, x, True, mutable=["stats"]))
    for i, batch in enumerate(batches):
        now, spread = batch.mean((0, 1, 2)), batch.var((0, 1, 2))
        mean, var = (now, spread) if i == 0 else (0.99 * mean + 0.01 * now, 0.99 * var + 0.01 * spread)
        out, moved = train(variables, np.float32(batch))
        np.testing.assert_allclose(out, (batch - now) / np.sqrt(spread + 1e-5), rtol=1e-4, atol=1e-4)
        variables = {**variables, **moved}
    np.testing.assert_allclose(variables["stats"]["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(variables["stats"]["var"], var, rtol=1e-5)
    out = jnp.asarray(norm.apply(variables, np.float32(batches[0]), False))
    np.testing.assert_allclose(out, (batches[0] - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-4)


def test_bfloat16_is_of_convolutions_and_dense_layers_and_the_parameters_stay_float32() -> None:
    net = Cifar8(norm="example", dtype="bfloat16")
    variables = jax.eval_shape(net.init, jax.random.key(0), np.float32(IMAGES))
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {np.dtype(np.float32)}
    text = str(jax.make_jaxpr(net.apply)(variables, jax.ShapeDtypeStruct(IMAGES.shape, np.float32)))
    products = [line for line in text.splitlines() if "conv_general_dilated[" in line or "dot_general[" in line]
    assert len(products) == 11
    assert all(":bf16[" in line for line in products)
    assert not any(":bf16[" in line for line in text.splitlines() if "rsqrt" in line)
