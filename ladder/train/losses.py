"""What is minimised: each example's loss, `[n] f32`. Imported in the export child only."""

import jax
import jax.numpy as jnp
import optax

from ladder.recipes import Recipe
from ladder.train.mixing import SHARE, Arrays, partners


def per_example(recipe: Recipe, logits: jax.Array, batch: Arrays) -> jax.Array:
    """The recipe's loss of each example of a training batch.

    `softmax`: cross-entropy. `sigmoid`: the mean over the classes of each one's binary cross-entropy, its target 1 or 0
    on either side of `threshold` (Wightman et al., "ResNet strikes back", 2021). A mixed example's target is mixed too,
    after smoothing.
    """
    if SHARE not in batch and recipe.loss == "softmax":
        return cross_entropy(logits, batch["label"], recipe.smoothing)
    target = _targets(batch, logits.shape[-1], recipe.smoothing)
    if recipe.loss == "softmax":
        return optax.softmax_cross_entropy(logits, target)
    if recipe.threshold:
        target = (target > recipe.threshold).astype(jnp.float32)
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, target), axis=-1)


def cross_entropy(logits: jax.Array, labels: jax.Array, smoothing: float = 0.0) -> jax.Array:
    """Each example's; with smoothing s the target is (1 − s) one-hot + s / classes."""
    if not smoothing:
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    target = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), smoothing)
    return optax.softmax_cross_entropy(logits, target)


def _targets(batch: Arrays, classes: int, smoothing: float) -> jax.Array:
    own = optax.smooth_labels(jax.nn.one_hot(batch["label"], classes), smoothing)
    if SHARE not in batch:
        return own
    share = batch[SHARE][:, None]
    return share * own + (1 - share) * partners(own)
