"""The optimisers as pure functions of one tensor, with the constants of reference/recipes.md section 0.

Each gives the new parameter and its named slots, which are zero at the start and stand in the state as
`opt/<slot>/<parameter>`; `step` is the count of steps done. Source: brettkoonce/lean4-mlir,
LeanMlir/VerifiedTrain.lean @126ab67b.
"""

import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from ladder.recipes.recipe import Optimiser

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # of AdamW

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


def adamw(
    optimiser: Optimiser, p: jax.Array, g: jax.Array, slots: Slots, lr: jax.Array, step: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Adam with both moments bias-corrected, and p's own decay beside it: p -= lr · (m̂ / (√v̂ + ε) + λ p).

    With t the 1-based step. 1 − βᵗ is -expm1(t ln β): in float32, 1 − 0.999ᵗ is off by 6e-5 of its value at step 1.
    """
    t = (step + 1).astype(jnp.float32)
    mean = BETA1 * slots["mean"] + (1 - BETA1) * g
    square = BETA2 * slots["square"] + (1 - BETA2) * g * g
    corrected = mean / -jnp.expm1(t * math.log(BETA1))
    deviation = jnp.sqrt(square / -jnp.expm1(t * math.log(BETA2)))
    moved = p - lr * (corrected / (deviation + EPSILON) + optimiser.decay * p)
    return moved, {"mean": mean, "square": square}


UPDATES: dict[str, Update] = {"sgd": sgd, "nesterov": nesterov, "adamw": adamw}
SLOTS: dict[str, tuple[str, ...]] = {"sgd": (), "nesterov": ("velocity",), "adamw": ("mean", "square")}
