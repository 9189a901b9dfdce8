"""Each net is torchvision's or timm's: logits, loss, every gradient and batch statistic in float64.

The goldens are made by scripts/model_goldens.py and hold no weights: both sides draw them by name (seeded.py).
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models import seeded
from tests.models.zoo import ZOO, filled, flat, shapes

GOLDENS = Path(__file__).parent / "goldens"
BOUND = 1e-9
Golden = dict[str, Any]


def load(name: str) -> Golden:
    return json.loads((GOLDENS / f"{name}.json").read_text())


def ours(name: str, net: nn.Module, golden: Golden) -> Golden:
    """The same numbers from our net, under `jax.enable_x64`."""
    variables = shapes(net, golden["size"])
    params = filled(variables["params"], lambda leaf, shape: seeded.weight(name, leaf, shape))
    stats = filled(variables.get("stats", {}), lambda leaf, shape: np.zeros(shape, np.int32 if not shape else float))
    images, labels = seeded.images(name, golden["batch"], golden["size"]), seeded.labels(golden["batch"])

    def loss(params: Any) -> tuple[jax.Array, Any]:
        logits, moved = net.apply({"params": params, "stats": stats}, images, train=True, mutable=["stats"])
        each = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -jnp.mean(each), (logits, moved.get("stats", {}))

    (value, (logits, moved)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    keep = functools.partial(seeded.digest, name)
    first = {leaf: value for leaf, value in flat(moved).items() if not leaf.endswith("/seen")}
    return {
        "loss": float(value),
        "logits": np.asarray(logits),
        "gradients": {leaf: keep(leaf, np.asarray(g)) for leaf, g in flat(gradients).items()},
        "stats": {leaf: keep(leaf, np.asarray(s)) for leaf, s in first.items()},
    }


def difference(found: Mapping[str, Any], golden: Mapping[str, Any]) -> float:
    """Largest difference of norm or sampled place, relative to the array's norm; arrays that vanish (the gradient of a
    key's bias is 0 in exact arithmetic) count against a millionth of the largest."""
    assert found.keys() == golden.keys()
    floor = 1e-6 * max(leaf["l2"] for leaf in golden.values())

    def one(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
        apart = np.abs(np.array([a["l2"], *a["samples"]]) - np.array([b["l2"], *b["samples"]]))
        return float(np.max(apart)) / max(b["l2"], floor)

    return max(one(found[leaf], golden[leaf]) for leaf in golden)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_net_is_the_independent_one(name: str) -> None:
    golden = load(name)
    with jax.enable_x64(True):
        found = ours(name, ZOO[name].full(dtype=jnp.float64), golden)
    logits = np.array(golden["logits"])
    apart = {
        "logits": np.max(np.abs(found["logits"] - logits)) / np.max(np.abs(logits)),
        "loss": abs(found["loss"] - golden["loss"]) / golden["loss"],
        "gradients": difference(found["gradients"], golden["gradients"]),
        "statistics": difference(found["stats"], golden["stats"]) if golden["stats"] else 0.0,
    }
    print(name, apart)
    assert all(value < BOUND for value in apart.values()), apart
