"""The optimisers as pure functions of one tensor, and what a step does to the gradient and the averages around them.

Each gives the new parameter and its named slots, which start at SLOTS' values and stand in the state as
`opt/<slot>/<parameter>`; `step` is the count of steps done. Sources, brettkoonce/lean4-mlir: sgd, nesterov and adamw
LeanMlir/VerifiedTrain.lean @126ab67b (reference/recipes.md section 0); lamb, clipped and averaging
jax/generated/generated_resnet50_imagenet_rsbfaithful.py @45e7317a and generated_vit_tiny_imagenet.py @44abf272;
rmsprop generated_mobilenet_v2_imagenet_full.py @0ccd6ad9.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import optax

from ladder.recipes.recipe import Optimiser

BETA1, BETA2 = 0.9, 0.999  # of AdamW and LAMB
RHO = 0.9  # of RMSProp
NORM_EPSILON = 1e-6  # beside the norm that a gradient is clipped by, as torch's clip_grad_norm_ has it
UNDECAYED = ("cls", "pos")  # class token and position embedding, where only weights decay

Slots = Mapping[str, jax.Array]
Update = Callable[
    [Optimiser, jax.Array, jax.Array, Slots, jax.Array, jax.Array], tuple[jax.Array, dict[str, jax.Array]]
]


def sgd(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """p -= lr · g."""
    del optimiser, slots, step
    return p - lr * g, {}


def nesterov(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """v = μ v + g; p -= lr · (μ v + g)."""
    del step
    velocity = optimiser.momentum * slots["velocity"] + g
    return p - lr * (optimiser.momentum * velocity + g), {"velocity": velocity}


def momentum(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Heavy ball, its decay in the gradient: v = μ v + g + λ p; p -= lr · v."""
    del step
    velocity = optimiser.momentum * slots["velocity"] + _with_decay(optimiser, p, g)
    return p - lr * velocity, {"velocity": velocity}


def rmsprop(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """TensorFlow's RMSProp, ε inside the root and s = 1 at the start, its decay in the gradient: g += λ p;
    s = ρ s + (1 − ρ) g²; v = μ v + g / √(s + ε); p -= lr · v.

    TensorFlow and optax keep lr · g / √(s + ε) in v: the same at a constant rate. The published trainer is as here.
    """
    del step
    g = _with_decay(optimiser, p, g)
    square = RHO * slots["square"] + (1 - RHO) * g * g
    velocity = optimiser.momentum * slots["velocity"] + g / jnp.sqrt(square + optimiser.epsilon)
    return p - lr * velocity, {"square": square, "velocity": velocity}


def _with_decay(optimiser: Optimiser, p: jax.Array, g: jax.Array) -> jax.Array:
    return g + optimiser.decay * p if optimiser.decay else g


def adamw(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Adam with both moments bias-corrected, and p's own decay beside it: p -= lr · (m̂ / (√v̂ + ε) + λ p)."""
    direction, moments = _adam(optimiser, p, g, slots, step)
    return p - lr * direction, moments


def lamb(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """AdamW's direction d, scaled to the tensor's own size: p -= lr · |p| / |d| · d; the ratio is 1 where a norm is 0.

    You et al., "Large Batch Optimization for Deep Learning", 2020. As in timm, and not in optax, a tensor without
    decay is not scaled.
    """
    direction, moments = _adam(optimiser, p, g, slots, step)
    if optimiser.decay:
        size, length = jnp.linalg.norm(p.ravel()), jnp.linalg.norm(direction.ravel())
        direction *= jnp.where((size > 0) & (length > 0), size / jnp.where(length > 0, length, 1.0), 1.0)
    return p - lr * direction, moments


def _adam(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """m̂ / (√v̂ + ε) + λ p, and both moments.

    With t the 1-based step. 1 − βᵗ is -expm1(t ln β): in float32, 1 − 0.999ᵗ is off by 6e-5 of its value at step 1.
    """
    t = (step + 1).astype(jnp.float32)
    mean = BETA1 * slots["mean"] + (1 - BETA1) * g
    square = BETA2 * slots["square"] + (1 - BETA2) * g * g
    corrected = mean / -jnp.expm1(t * math.log(BETA1))
    deviation = jnp.sqrt(square / -jnp.expm1(t * math.log(BETA2)))
    return corrected / (deviation + optimiser.epsilon) + optimiser.decay * p, {"mean": mean, "square": square}


UPDATES: dict[str, Update] = {
    "sgd": sgd,
    "nesterov": nesterov,
    "adamw": adamw,
    "momentum": momentum,
    "rmsprop": rmsprop,
    "lamb": lamb,
}
SLOTS: dict[str, Mapping[str, float]] = {
    "sgd": {},
    "nesterov": {"velocity": 0.0},
    "adamw": {"mean": 0.0, "square": 0.0},
    "momentum": {"velocity": 0.0},
    "rmsprop": {"square": 1.0, "velocity": 0.0},
    "lamb": {"mean": 0.0, "square": 0.0},
}


def of_tensor(optimiser: Optimiser, name: str, rank: int) -> Optimiser:
    """The optimiser of one tensor: without decay where the recipe's falls on weights only, and this is not one."""
    weight = rank > 1 and name.rpartition("/")[2] not in UNDECAYED
    return optimiser if weight or optimiser.decayed == "all" else replace(optimiser, decay=0.0)


def clipped(gradient: dict[str, jax.Array], limit: float) -> dict[str, jax.Array]:
    """The gradient, scaled down to a norm of `limit` over all tensors if it is longer: g · min(1, c / (|g| + ε))."""
    scale = jnp.minimum(1.0, limit / (optax.tree.norm(gradient) + NORM_EPSILON))
    return {name: g * scale for name, g in gradient.items()}


def averaged(average: jax.Array, value: jax.Array, decay: float, step: jax.Array) -> jax.Array:
    """The moving average after a step: d a + (1 − d) p with d = min(decay, (1 + t) / (10 + t)), t the steps before it.

    TensorFlow's ExponentialMovingAverage with num_updates: early on it follows the parameter, and forgets its start.
    """
    t = step.astype(jnp.float32)
    d = jnp.minimum(jnp.float32(decay), (1 + t) / (10 + t))
    return d * average + (1 - d) * value
