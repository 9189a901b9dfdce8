"""What is exported: the feed, step and eval of a recipe, as pure functions over flat dicts of named arrays.

No flax object, typed key or optimiser object crosses the boundary; the same names serve checkpoint, tie table and the
no-dropped-state check. Imported in the export child only.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ladder.recipes import Recipe
from ladder.train import feed as feeds
from ladder.train.layout import AVERAGE, Leaf, average_of, parameter
from ladder.train.losses import cross_entropy, per_example
from ladder.train.mixing import CUT, ERASE, SHARE, erased, mixed
from ladder.train.optimiser import SLOTS, UPDATES, averaged, clipped, of_tensor
from models import FLATTENED, LAST_NORMS, NETS
from models.dropping import KEYS

Arrays = dict[str, jax.Array]
Traced = tuple[Callable[..., Any], tuple[Any, ...]]  # a function, and the shapes it is exported at
RENAMED = {"kernel": "w", "bias": "b"}
PARAMS, STATS = "params/", "stats/"


def build(
    recipe: Recipe, variant: str, test_batch: int, streamed: bool = False
) -> tuple[tuple[Leaf, ...], dict[str, Traced]]:
    """The state's layout and, by name, each function with the shapes it is exported at, in a variant.

    The feeds take the whole dataset, or, `streamed`, the images of one batch.
    Functions: `feed` and `test_feed` (images u8, labels i32, idx i32, draws) -> batch; `step` (state, batch, lr f32,
    key u32[2]) -> (state, metrics); `eval` (state, batch) -> (correct i32, top5 i32, loss_sum f32).
    Raises ValueError when the net's parameter count is not the recipe's, or the training images are the smaller ones.
    """
    data, spec = recipe.data, jax.ShapeDtypeStruct
    if not recipe.made_on_host and any(have < want for have, want in zip(data.shape, data.image, strict=True)):
        raise ValueError(f"training images {data.shape} cannot be cropped to the net's {data.image}")
    net = NETS[recipe.net](variant, **options(recipe))
    variables = jax.eval_shape(net.init, jax.random.key(0), spec((1, *data.image), jnp.float32))
    leaves = layout(recipe, variables)

    def apply(state: Arrays, x: jax.Array, train: bool, keys: Arrays | None = None) -> tuple[jax.Array, Arrays]:
        """Logits f32 and the statistics, by name, as the net leaves them."""
        given = jax.tree_util.tree_map_with_path(lambda path, _: state[_name(path)], variables)
        out, after = net.apply(given, x, train=train, mutable=["stats"] if train else [], rngs=keys)
        stats = {_name(path): value for path, value in jax.tree_util.tree_leaves_with_path(after)}
        return jnp.asarray(out).astype(jnp.float32), stats

    def loss(params: Arrays, stats: Arrays, batch: Arrays, key: jax.Array | None) -> tuple[jax.Array, Arrays]:
        """Mean over the examples of weight 1; log-sum-exp form, stable for any finite logits."""
        x, keys = feeds.pixels(recipe, batch["image"]), None
        if key is not None:
            noise, dropped = jax.random.split(key)
            x, keys = erased(x, batch[ERASE], noise) if ERASE in batch else x, {KEYS: dropped}
        if SHARE in batch:
            x = mixed(x, batch[SHARE], batch[CUT])
        out, after = apply({**params, **stats}, x, True, keys)
        each = per_example(recipe, out, batch)
        return jnp.sum(each * batch["weight"]) / jnp.sum(batch["weight"]), after

    def step(state: Arrays, batch: Arrays, lr: jax.Array, key: jax.Array) -> tuple[Arrays, Arrays]:
        optimiser, (params, stats) = recipe.optimiser, (_under(PARAMS, state), _under(STATS, state))
        typed = jax.random.wrap_key_data(key, impl="threefry2x32") if draws_in_graph(recipe) else None
        (value, after), gradient = accumulated(loss, recipe.accumulate, params, stats, batch, typed)
        if optimiser.clip:
            gradient = clipped(gradient, optimiser.clip)
        moved: Arrays = {}
        for name, p in params.items():
            slots = {slot: state[_slot(slot, name)] for slot in SLOTS[optimiser.name]}
            own = of_tensor(optimiser, name, p.ndim)
            moved[name], slots = UPDATES[optimiser.name](own, p, gradient[name], slots, lr, state["step"])
            moved |= {_slot(slot, name): v for slot, v in slots.items()}
        moved |= after
        averages = {
            name: averaged(average, moved[name.removeprefix(AVERAGE)], recipe.average, state["step"])
            for name, average in _under(AVERAGE, state).items()
        }
        return {**moved, **averages, "step": state["step"] + 1}, {"loss": value}

    def evaluate(state: Arrays, batch: Arrays) -> tuple[jax.Array, jax.Array, jax.Array]:
        out, _ = apply(state, feeds.pixels(recipe, batch["image"]), False)
        label, weight = batch["label"], batch["weight"]
        own = jnp.take_along_axis(out, label[:, None], axis=1)
        # "not at most" rather than "above", so that a NaN counts against the net.
        above = jnp.sum(jnp.logical_not(out <= own), axis=1)
        correct = jnp.sum((jnp.argmax(out, axis=1) == label) & jnp.isfinite(own[:, 0]) & (weight > 0), dtype=jnp.int32)
        top5 = jnp.sum((above < 5) & (weight > 0), dtype=jnp.int32)
        each = cross_entropy(out, label)
        return correct, top5, jnp.sum(jnp.where(weight > 0, each, 0.0))

    def feeder(size: tuple[int, int]) -> Callable[..., Arrays]:
        def feed(images: jax.Array, labels: jax.Array, idx: jax.Array, draws: Arrays) -> Arrays:
            return feeds.feed(images, labels, idx, draws, size)

        return feed

    def feed_shapes(shape: tuple[int, ...], examples: int, batch: int, draws: Mapping[str, Any]) -> tuple[Any, ...]:
        images = spec((examples, *shape), jnp.uint8)
        return images, spec((examples,), jnp.int32), spec((batch,), jnp.int32), dict(draws)

    given, tested = (recipe.batch, test_batch) if streamed else (data.train, data.test)
    train_shapes = feed_shapes(data.shape, given, recipe.batch, feeds.draw_shapes(recipe, recipe.batch))
    test_shapes = feed_shapes(data.image, tested, test_batch, {})
    state = {leaf.name: spec(leaf.shape, leaf.dtype) for leaf in leaves}
    feed, test_feed = feeder(recipe.train_image[:2]), feeder(data.image[:2])
    batch, test = jax.eval_shape(feed, *train_shapes), jax.eval_shape(test_feed, *test_shapes)
    return leaves, {
        "feed": (feed, train_shapes),
        "test_feed": (test_feed, test_shapes),
        "step": (step, (state, batch, spec((), jnp.float32), spec((2,), jnp.uint32))),
        "eval": (evaluate, (state, test)),
    }


def accumulated(
    loss: Callable[[Arrays, Arrays, Arrays, jax.Array | None], tuple[jax.Array, Arrays]],
    parts: int,
    params: Arrays,
    stats: Arrays,
    batch: Arrays,
    key: jax.Array | None,
) -> tuple[tuple[jax.Array, Arrays], Arrays]:
    """The loss of a batch, the statistics after it, and the gradient, with the batch in `parts`, one after another.

    `loss` is a mean over the weights, so the parts are weighted by theirs: without statistics the result is that of the
    whole batch up to rounding. Statistics are taken over each part, and the running ones move once a part.
    Each part draws from a key of its own.
    """
    whole = jax.value_and_grad(loss, has_aux=True)
    if parts == 1:
        return whole(params, stats, batch, key)

    def add(
        carried: tuple[Arrays, jax.Array, Arrays], given: tuple[Arrays, jax.Array | None]
    ) -> tuple[tuple[Arrays, jax.Array, Arrays], None]:
        (stats, value, gradient), (part, own_key) = carried, given
        (own, after), own_gradient = whole(params, stats, part, own_key)
        share = jnp.sum(part["weight"]) / total
        return (after, value + share * own, {n: g + share * own_gradient[n] for n, g in gradient.items()}), None

    total = jnp.sum(batch["weight"])
    split = {name: jnp.reshape(v, (parts, -1, *v.shape[1:])) for name, v in batch.items()}
    start = (stats, jnp.zeros((), jnp.float32), {name: jnp.zeros_like(p) for name, p in params.items()})
    keys = None if key is None else jax.random.split(key, parts)
    (after, value, gradient), _ = jax.lax.scan(add, start, (split, keys))
    return (value, after), gradient


def options(recipe: Recipe) -> dict[str, Any]:
    """What the net is made with beside its variant: the recipe's choices that are not neutral."""
    # A part of an accumulated batch keeps the root, so that the parts of a step together keep what the recipe says.
    keep = recipe.norm_keep ** (1 / recipe.accumulate) if recipe.norm_keep else 0.0
    asked: dict[str, tuple[Any, Any]] = {  # and the neutral value
        "norm": (recipe.norm, "none"),
        "width": (recipe.width, 0),
        "dtype": (recipe.dtype, "float32"),
        "classes": (recipe.data.classes, 10),
        "keep": (keep, 0.0),
        "eps": (recipe.norm_epsilon, 0.0),
        "drop_path": (recipe.drop_path, 0.0),
        "dropout": (recipe.dropout, 0.0),
    }
    return {name: value for name, (value, neutral) in asked.items() if value != neutral}


def draws_in_graph(recipe: Recipe) -> bool:
    """Whether the step draws from its key."""
    return bool(recipe.drop_path or recipe.dropout or recipe.erasing)


def layout(recipe: Recipe, variables: Any) -> tuple[Leaf, ...]:
    """The state's leaves: parameters and the optimiser's slots for each, the net's statistics, averages, the step."""
    shapes = {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(variables)}
    params = {name: leaf.shape for name, leaf in sorted(_under(PARAMS, shapes).items())}
    count = sum(math.prod(shape) for shape in params.values())
    if count != recipe.parameters:
        raise ValueError(f"net {recipe.net} has {count:,} parameters; its recipe says {recipe.parameters:,}")
    flattened = FLATTENED.get(recipe.net, {})

    def trained(name: str, shape: tuple[int, ...]) -> Leaf:
        leaf = parameter(name, shape, flattened.get(name), recipe.init, recipe.layer_scale)
        zero = recipe.zero_gamma and name.endswith(LAST_NORMS[recipe.net])
        return replace(leaf, fill=0.0) if zero else leaf

    learned = (
        *(trained(name.removeprefix(PARAMS), shape) for name, shape in params.items()),
        *(Leaf(name, leaf.shape, str(leaf.dtype)) for name, leaf in sorted(_under(STATS, shapes).items())),
    )
    slots = SLOTS[recipe.optimiser.name].items()
    return (
        *learned,
        *(Leaf(_slot(s, n), shape, "float32", fill=start) for s, start in slots for n, shape in params.items()),
        *(average_of(leaf) for leaf in learned if recipe.average and leaf.dtype == "float32"),
        Leaf("step", (), "int32"),
    )


def _under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arrays.items() if name.startswith(prefix)}


def _slot(slot: str, parameter: str) -> str:
    """`opt/velocity/conv1/w`."""
    return f"opt/{slot}/{parameter.removeprefix(PARAMS)}"


def _name(path: Any) -> str:
    """`params/conv1/w` for the flax path params -> conv1 -> kernel."""
    *scope, last = (str(p.key) for p in path)
    return "/".join([*scope, RENAMED.get(last, last)])
