"""Random erasing, mixup and cutmix in the graph, on what the net reads; their parameters are drawn on the host.

Here rather than on the host since a batch stays uint8 on its way, and the mixed pixels are not rounded to it. Partners
are neighbours, places 2k and 2k + 1 of a batch, in place of those of the reversed batch: the order is random, so they
are as random, and a batch can be split over devices or in parts of even size without parting them. A rectangle is
`top, bottom, left, right` i32, the second and the last excluded; an empty one changes nothing. Imported in the export
child only.
"""

import jax
import jax.numpy as jnp

Arrays = dict[str, jax.Array]
SHARE, CUT, ERASE = "share", "cut", "erase"  # a batch's arrays beside image, label and weight


def mixed(x: jax.Array, share: jax.Array, cut: jax.Array) -> jax.Array:
    """Each example with its partner: `[n, h, w, c] -> the same`.

    Mixup (Zhang et al., 2018), where `cut` [n, 4] is empty: share · own + (1 − share) · partner's, share f32 [n].
    Cutmix (Yun et al., 2019), elsewhere: the partner's pixels inside `cut`.
    """
    other = partners(x)
    weight = share[:, None, None, None]
    whole = weight * x + (1 - weight) * other
    empty = (cut[:, 0] >= cut[:, 1]) | (cut[:, 2] >= cut[:, 3])
    return jnp.where(empty[:, None, None, None], whole, jnp.where(_inside(cut, x), other, x))


def erased(x: jax.Array, erase: jax.Array, key: jax.Array) -> jax.Array:
    """Normal noise inside each example's rectangle `erase` [n, 4] (Zhong et al., 2017; timm's mode `pixel`)."""
    return jnp.where(_inside(erase, x), jax.random.normal(key, x.shape, x.dtype), x)


def partners(values: jax.Array) -> jax.Array:
    """Each place's partner's value: `[n, ...] -> the same`, n even."""
    pairs = values.reshape(-1, 2, *values.shape[1:])
    return pairs[:, ::-1].reshape(values.shape)


def _inside(box: jax.Array, x: jax.Array) -> jax.Array:
    """Which pixels lie in each example's rectangle, bool `[n, h, w, 1]`."""
    rows, columns = jnp.arange(x.shape[1]), jnp.arange(x.shape[2])
    down = (rows >= box[:, :1]) & (rows < box[:, 1:2])
    across = (columns >= box[:, 2:3]) & (columns < box[:, 3:])
    return (down[:, :, None] & across[:, None, :])[..., None]
