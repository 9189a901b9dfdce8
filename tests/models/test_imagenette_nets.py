"""The nets of the imagenette rung: published counts, our own parameter names, a real train step of a tiny one."""

import functools
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from models.convs import Conv
from models.mobilenetv2 import relu6
from models.mobilenetv4 import Uib, UniversalBottleneck
from tests.models import seeded
from tests.models.zoo import ZOO, count, filled, flat, shapes

# Tensors, batch norms and the SHA-256 of the lines "name shape", sorted, at 10 classes. The names decide what is drawn.
LAYOUTS: dict[str, tuple[int, int, str]] = {
    "resnet34": (110, 36, "7c509f306d504172"),
    "resnet50": (161, 53, "a69e89c3863f0f7d"),
    "mobilenetv2": (158, 52, "3c7a96d0f767d683"),
    "efficientnet_b0": (213, 49, "197e4093898da427"),
    "mobilenetv4_conv_m": (233, 77, "b31feec32b92c8cb"),
    "convnext_t": (182, 0, "21f4b33458707ec4"),
    "vit_tiny": (200, 0, "35eb5aa98b65cdb4"),
}
BATCH_NORM = {name for name, (_, norms, _) in LAYOUTS.items() if norms}


@pytest.mark.parametrize("name", ZOO)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    entry = ZOO[name]
    assert count(shapes(entry.full(), 224)["params"]) == entry.ten
    assert count(shapes(entry.full(classes=1000), 224)["params"]) == entry.thousand


def layout(name: str) -> tuple[int, int, str]:
    found = shapes(ZOO[name].full(), 224)
    params, stats = flat(found["params"]), flat(found.get("stats", {}))
    lines = "".join(f"{leaf} {list(value.shape)}\n" for leaf, value in sorted(params.items()))
    norms = sum(leaf.endswith("/seen") for leaf in stats)
    return len(params), norms, hashlib.sha256(lines.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", ZOO)
def test_parameter_names_and_shapes(name: str) -> None:
    assert layout(name) == LAYOUTS[name]


@pytest.mark.parametrize("name", ZOO)
def test_names_end_as_the_init_rules_know_them(name: str) -> None:
    found = shapes(ZOO[name].full(), 224)
    last = {leaf.split("/")[-1] for leaf in flat(found["params"])}
    own = {"convnext_t": {"scale"}, "vit_tiny": {"cls", "pos"}}.get(name, set())
    assert last == {"w", "b", "gamma", "beta"} | own
    assert {leaf.split("/")[-1] for leaf in flat(found.get("stats", {}))} in (set(), {"mean", "var", "seen"})


def test_squeeze_excite_is_dense_and_convnexts_expansion_a_convolution() -> None:
    """The rank decides the init rule, Glorot or He fan-out, as in the published programs."""
    b0 = flat(shapes(ZOO["efficientnet_b0"].full(), 224)["params"])
    assert b0["stage2_block1/squeeze_excite/squeeze/w"].shape == (96, 4)
    assert b0["stage2_block1/squeeze_excite/excite/w"].shape == (4, 96)
    t = flat(shapes(ZOO["convnext_t"].full(), 224)["params"])
    assert t["stage1_block1/expand/w"].shape == (1, 1, 96, 384)
    assert t["stage1_block1/depthwise/w"].shape == (7, 7, 1, 96)


@functools.cache
def trained(name: str, dtype: Any) -> tuple[list[float], Any, Any]:
    """Losses of five steps on one batch, and the statistics before and after."""
    net, size = ZOO[name].tiny(dtype=dtype), 32
    tree = shapes(net, size)
    params = filled(tree["params"], lambda leaf, s: seeded.weight(name, leaf, s).astype(np.float32))
    stats = filled(tree.get("stats", {}), lambda _, s: np.zeros(s, np.float32 if s else np.int32))
    images, labels = seeded.images(name, 8, size).astype(np.float32), seeded.labels(8)

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # compiling is what costs
    def step(params: Any, stats: Any) -> Any:
        def loss(params: Any) -> Any:
            logits, moved = net.apply({"params": params, "stats": stats}, images, train=True, mutable=["stats"])
            assert logits.dtype == jnp.float32
            each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return jnp.mean(each), moved.get("stats", {})

        (value, moved), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), moved, value

    losses: list[float] = []
    before = stats
    for _ in range(5):
        params, stats, value = step(params, stats)
        losses.append(float(value))
    return losses, before, stats


@pytest.mark.parametrize("name", ZOO)
def test_a_tiny_net_learns_and_its_statistics_move(name: str) -> None:
    losses, before, after = trained(name, jnp.float32)
    assert losses[-1] < losses[0]
    assert bool(after) == (name in BATCH_NORM)
    for leaf, value in flat(after).items():
        assert np.any(value != flat(before)[leaf]), leaf


def test_bfloat16_products_change_the_loss_little_but_do() -> None:
    plain, rounded = trained("convnext_t", jnp.float32)[0], trained("convnext_t", jnp.bfloat16)[0]
    assert plain[0] != rounded[0]
    assert rounded[0] == pytest.approx(plain[0], rel=0.05)


def test_relu6_has_no_gradient_at_its_bends() -> None:
    x = jnp.array([-1.0, 0.0, 3.0, 6.0, 7.0])
    value, slope = jax.vmap(jax.value_and_grad(relu6))(x)
    assert value.tolist() == [0.0, 0.0, 3.0, 6.0, 6.0]
    assert slope.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_layers_that_cannot_be_are_refused() -> None:
    image = jnp.zeros((1, 8, 8, 4))
    with pytest.raises(ValueError, match="of 4 channels gives 4, not 8"):
        Conv(8, 3, (1, 1), depthwise=True).init(jax.random.key(0), image)
    with pytest.raises(ValueError, match="stride sits on the first depthwise, which is absent"):
        UniversalBottleneck(Uib(8, 2, 2, 0, 3), jnp.float32).init(jax.random.key(0), image, False)
