"""What is exported: the feed, step and eval of a recipe, as pure functions over flat dicts of named arrays.

No flax object, typed key or optimiser object crosses the boundary; the same names serve checkpoint, tie table and the
no-dropped-state check. Imported in the export child only.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ladder.recipes import Recipe
from ladder.train.layout import Leaf, parameter
from models import FLATTENED, NETS

Arrays = dict[str, jax.Array]
Traced = tuple[Callable[..., Any], tuple[Any, ...]]  # a function, and the shapes it is exported at
RENAMED = {"kernel": "w", "bias": "b"}


def build(recipe: Recipe, variant: str, test_batch: int) -> tuple[tuple[Leaf, ...], dict[str, Traced]]:
    """The state's layout and, by name, each function with the shapes it is exported at, in a variant.

    Functions: `feed` and `test_feed` (images u8, labels i32, idx i32, draws) -> batch; `step` (state, batch, lr f32,
    key u32[2]) -> (state, metrics); `eval` (state, batch) -> (correct i32, top5 i32, loss_sum f32).
    Raises ValueError when the net's parameter count is not the recipe's.
    """
    net = NETS[recipe.net](variant)
    data, spec = recipe.data, jax.ShapeDtypeStruct
    image = spec((1, *data.shape), jnp.float32)
    variables = jax.eval_shape(net.init, jax.random.key(0), image)
    shapes = {_name(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(variables["params"])}
    flattened = FLATTENED[recipe.net]
    leaves = (
        *(parameter(name, shape, flattened.get(name), recipe.init) for name, shape in sorted(shapes.items())),
        Leaf("step", (), "int32"),
    )
    count = sum(math.prod(shape) for shape in shapes.values())
    if count != recipe.parameters:
        raise ValueError(f"net {recipe.net} has {count:,} parameters; its recipe says {recipe.parameters:,}")

    def logits(params: Arrays, pixels: jax.Array) -> jax.Array:
        tree = jax.tree_util.tree_map_with_path(lambda path, _: params["params/" + _name(path)], variables["params"])
        return jnp.asarray(net.apply({"params": tree}, pixels.astype(jnp.float32) / 255.0))

    def loss(params: Arrays, batch: Arrays) -> jax.Array:
        """Mean cross-entropy over the examples of weight 1; log-sum-exp form, stable for any finite logits."""
        each = optax.softmax_cross_entropy_with_integer_labels(logits(params, batch["image"]), batch["label"])
        return jnp.sum(each * batch["weight"]) / jnp.sum(batch["weight"])

    def step(state: Arrays, batch: Arrays, lr: jax.Array, key: jax.Array) -> tuple[Arrays, Arrays]:
        del key  # no recipe here draws in the graph
        params = {k: v for k, v in state.items() if k.startswith("params/")}
        value, gradient = jax.value_and_grad(loss)(params, batch)
        moved = {k: v - lr * gradient[k] for k, v in params.items()}
        return {**moved, "step": state["step"] + 1}, {"loss": value}

    def evaluate(state: Arrays, batch: Arrays) -> tuple[jax.Array, jax.Array, jax.Array]:
        params = {k: v for k, v in state.items() if k.startswith("params/")}
        out, label, weight = logits(params, batch["image"]), batch["label"], batch["weight"]
        own = jnp.take_along_axis(out, label[:, None], axis=1)
        # "not at most" rather than "above", so that a NaN counts against the net.
        above = jnp.sum(jnp.logical_not(out <= own), axis=1)
        correct = jnp.sum((jnp.argmax(out, axis=1) == label) & jnp.isfinite(own[:, 0]) & (weight > 0), dtype=jnp.int32)
        top5 = jnp.sum((above < 5) & (weight > 0), dtype=jnp.int32)
        each = optax.softmax_cross_entropy_with_integer_labels(out, label)
        return correct, top5, jnp.sum(jnp.where(weight > 0, each, 0.0))

    def feed_shapes(examples: int, batch: int) -> tuple[Any, ...]:
        images = spec((examples, *data.shape), jnp.uint8)
        return images, spec((examples,), jnp.int32), spec((batch,), jnp.int32), {}

    state = {leaf.name: spec(leaf.shape, leaf.dtype) for leaf in leaves}
    batch = jax.eval_shape(feed, *feed_shapes(data.train, recipe.batch))
    test = jax.eval_shape(feed, *feed_shapes(data.test, test_batch))
    return leaves, {
        "feed": (feed, feed_shapes(data.train, recipe.batch)),
        "test_feed": (feed, feed_shapes(data.test, test_batch)),
        "step": (step, (state, batch, spec((), jnp.float32), spec((2,), jnp.uint32))),
        "eval": (evaluate, (state, test)),
    }


def feed(images: jax.Array, labels: jax.Array, idx: jax.Array, draws: Arrays) -> Arrays:
    """A batch from a resident dataset: images `[n, h, w, c] u8`, labels `[n] i32`, idx `[b] i32`; -1 pads, weight 0."""
    at = jnp.maximum(idx, 0)
    return {
        "image": jnp.take(images, at, axis=0, mode="clip"),
        "label": jnp.take(labels, at, axis=0, mode="clip"),
        "weight": (idx >= 0).astype(jnp.float32),
        **{f"draws/{name}": value for name, value in draws.items()},
    }


def _name(path: Any) -> str:
    """`conv1/w` for the flax path conv1 -> kernel."""
    *scope, last = (str(p.key) for p in path)
    return "/".join([*scope, RENAMED.get(last, last)])
