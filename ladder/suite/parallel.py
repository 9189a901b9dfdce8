"""What several devices compute together: a sharded sum, and a data-parallel training beside a single-device one.

On a CPU whose virtual devices outnumber its cores, steps that nobody waits for deadlock in the all-reduce: XLA ends the
process after 60 s. So the host waits every SYNC steps.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

PER_DEVICE, WIDTH = 64, 16
STEPS, SYNC, RATE = 40, 5, 0.05


def rows(devices: int) -> np.ndarray:
    """f32 [devices * PER_DEVICE, WIDTH] of integers: shard i holds i + 1; sums are exact in any order."""
    return np.repeat(np.arange(1, devices + 1, dtype=np.float32), PER_DEVICE)[:, None] * np.ones(WIDTH, np.float32)


def mesh(platform: str, devices: int) -> Mesh:
    """The first `devices` devices of a platform. Raises RuntimeError when there are fewer."""
    found = jax.devices(platform)
    if len(found) < devices:
        raise RuntimeError(f"there are {len(found)} devices, not {devices}")
    return Mesh(np.array(found[:devices]), ("data",))


def total(x: jax.Array) -> jax.Array:
    """The sum over all elements: over shards, an all-reduce."""
    return x.sum()


def sharded_sum(platform: str, devices: int) -> list[Any]:
    """The all-reduced sum of `rows`, as every device holds it. Raises RuntimeError unless every device held a shard."""
    where = mesh(platform, devices)
    split, whole = NamedSharding(where, PartitionSpec("data")), NamedSharding(where, PartitionSpec())
    value = jax.device_put(rows(devices), split)
    if len({shard.device for shard in value.addressable_shards}) != devices:
        raise RuntimeError(f"the array lies on {len(value.sharding.device_set)} devices, not on {devices}")
    found = jax.jit(total, out_shardings=whole)(value)
    return [shard.data for shard in found.addressable_shards]


def data(count: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Inputs [count, 8], targets [count, 1] and the parameters of a two-layer regression, always the same."""
    draw = np.random.RandomState(3)
    x = draw.standard_normal((count, 8)).astype(np.float32)
    y = np.sin(x.sum(1, keepdims=True)).astype(np.float32)
    shapes = {"w1": (8, 16), "b1": (16,), "w2": (16, 1)}
    return x, y, {name: (0.3 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error."""
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] - y) ** 2)


def gradient(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Loss and its gradient, over the whole batch: over shards, an all-reduce each."""
    return jax.value_and_grad(loss)(params, x, y)


def step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """One step of gradient descent: new parameters, and the loss before it."""
    value, grads = gradient(params, x, y)
    return jax.tree.map(lambda p, g: p - RATE * g, params, grads), value


def trained(platform: str, devices: int) -> tuple[dict[str, np.ndarray], list[float]]:
    """STEPS steps with the batch sharded over `devices`, parameters on all of them: the end, and every SYNC-th loss."""
    where = mesh(platform, devices)
    split, whole = NamedSharding(where, PartitionSpec("data")), NamedSharding(where, PartitionSpec())
    x, y, start = data(240)  # a multiple of 1 to 6, 8, 10 and 12 devices
    if len(x) % devices:
        raise RuntimeError(f"a batch of {len(x)} cannot be split over {devices} devices")
    xs, ys = jax.device_put(x, split), jax.device_put(y, split)
    params: Any = jax.device_put(start, whole)
    run: Callable[..., Any] = jax.jit(step, out_shardings=(whole, whole))
    losses: list[float] = []
    with jax.default_matmul_precision("highest"):
        for k in range(STEPS):
            params, value = run(params, xs, ys)
            if k % SYNC == 0 or k == STEPS - 1:
                losses.append(float(value))
    return {name: np.asarray(array) for name, array in params.items()}, losses
