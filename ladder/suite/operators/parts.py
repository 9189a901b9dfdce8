"""What each operator is tried on: shapes, paddings, ties. A row of the table is a test of tier 2a."""

import functools
from collections.abc import Callable

import numpy as np

from ladder.suite.export import Traced
from ladder.suite.operators import functions as f
from ladder.suite.operators import threefry
from ladder.suite.operators.cases import split
from ladder.suite.operators.part import Part, fan_in, integers, normal, traced

Parts = tuple[Part, ...]


def trace(name: str, seed: int, fault: str) -> Traced:
    """The test `name` as one function, with a fault of ladder.suite.operators.faults in it, or "" for none."""
    operator, dtype = split(name)
    right = PARTS[operator](f"{seed}/{operator}")
    parts = right
    if fault:
        from ladder.suite.operators.injections import inject

        parts = inject(fault, right)
    return traced(parts, dtype, right, seed)


def _pointwise(key: str, *functions: Callable[..., object]) -> Parts:
    x = normal(f"{key}/x", 64, 128, scale=2.0)
    return tuple(Part(fn.__name__, fn, {"x": x}) for fn in functions)


def _linear(key: str) -> Parts:
    n, k, m = 96, 512, 64
    w = normal(f"{key}/w", k, m, scale=fan_in(k, m))
    return (Part("linear", f.linear, {"x": normal(f"{key}/x", n, k), "w": w, "b": normal(f"{key}/b", m)}),)


def _affine(key: str, c: int) -> dict[str, np.ndarray]:
    return {"gamma": 1 + normal(f"{key}/gamma", c, scale=0.3), "beta": normal(f"{key}/beta", c, scale=0.3)}


def _rms_norm(key: str) -> Parts:
    gamma = _affine(key, 192)["gamma"]
    return (Part("rms_norm", f.rms_norm, {"x": normal(f"{key}/x", 64, 192), "gamma": gamma}),)


def _layer_norm(key: str) -> Parts:
    x = 1 + normal(f"{key}/x", 64, 192)
    return (Part("layer_norm", f.layer_norm, {"x": x, **_affine(key, 192)}),)


def _batch_norm(key: str) -> Parts:
    x = 1 + normal(f"{key}/x", 8, 8, 8, 32)
    running = {"mean": normal(f"{key}/mean", 32), "var": 1 + normal(f"{key}/var", 32, scale=0.2)}
    return (
        Part("batch_norm", f.batch_norm, {"x": x, **_affine(key, 32)}),
        Part("statistics", f.batch_statistics, {"x": x, **running}, gradients=False),
    )


def _softmax(key: str) -> Parts:
    labels = integers(f"{key}/labels", 0, 100, 64)
    logits = normal(f"{key}/logits", 64, 100, scale=3.0)
    return (Part("softmax_ce", f.softmax_cross_entropy, {"logits": logits, "labels": labels}),)


def _attention(key: str) -> Parts:
    return (Part("attention", f.causal_attention, {k: normal(f"{key}/{k}", 2, 4, 32, 16) for k in "qkv"}),)


# Side of the image, channels in and out, kernel, stride, padding before and after (of height, of width), groups.
CONVOLUTIONS: dict[str, tuple[int, int, int, int, int, tuple[tuple[int, int], tuple[int, int]], int]] = {
    "1x1": (8, 16, 24, 1, 1, ((0, 0), (0, 0)), 1),
    "1x1_stride2": (8, 16, 24, 1, 2, ((0, 0), (0, 0)), 1),
    "3x3": (10, 8, 16, 3, 1, ((1, 1), (1, 1)), 1),
    "3x3_stride2_late": (10, 8, 16, 3, 2, ((0, 1), (0, 1)), 1),
    "3x3_uneven": (9, 8, 8, 3, 2, ((2, 0), (0, 1)), 1),
    "7x7_stride2": (14, 3, 16, 7, 2, ((3, 3), (3, 3)), 1),
    "4x4_patch": (8, 3, 16, 4, 4, ((0, 0), (0, 0)), 1),
}
GROUPED = {
    "depthwise3x3": (8, 12, 12, 3, 1, ((1, 1), (1, 1)), 12),
    "depthwise5x5_stride2": (8, 12, 12, 5, 2, ((2, 2), (2, 2)), 12),
    "depthwise7x7": (9, 8, 8, 7, 1, ((3, 3), (3, 3)), 8),
    "groups4": (8, 16, 24, 3, 1, ((1, 1), (1, 1)), 4),
}


def _convolutions(key: str, names: tuple[str, ...]) -> Parts:
    return tuple(_convolution(f"{key}/{name}", name) for name in names)


def _convolution(key: str, name: str) -> Part:
    side, c, o, k, stride, pads, groups = {**CONVOLUTIONS, **GROUPED}[name]
    shape = (k, k, c // groups, o)
    w = normal(f"{key}/w", *shape, scale=fan_in(*shape))
    function = functools.partial(f.conv, stride=stride, pads=pads, groups=groups)
    return Part(f"conv{name}", function, {"x": normal(f"{key}/x", 4, side, side, c), "w": w})


def _max_pool(key: str) -> Parts:
    tied = integers(f"{key}/tied", 0, 4, 2, 8, 8, 6).astype(np.float64)  # so few values that windows have ties
    x = normal(f"{key}/x", 2, 8, 8, 6)
    return (
        Part("apart", f.max_pool2x2, {"x": x}),
        Part("apart_ties", f.max_pool2x2, {"x": tied}),
        Part("overlapping", f.max_pool3x3, {"x": x}),
        Part("overlapping_ties", f.max_pool3x3, {"x": tied}),
    )


def _gather_scatter(key: str) -> Parts:
    index = integers(f"{key}/index", 0, 20, 64)  # with repeats
    table, rows = normal(f"{key}/table", 20, 16), normal(f"{key}/rows", 64, 16)
    return (
        Part("gather", f.gather, {"table": table, "index": index}),
        Part("scatter_add", f.scatter_add, {"base": table, "index": index, "rows": rows}),
    )


def _argmax(key: str) -> Parts:
    tied = integers(f"{key}/tied", 0, 5, 64, 32).astype(np.float64)
    x = normal(f"{key}/x", 64, 32)
    return (
        Part("argmax", f.argmax, {"x": x}, gradients=False),
        Part("ties", f.argmax, {"x": tied}, gradients=False),
    )


def _sort(key: str) -> Parts:
    x, tied = normal(f"{key}/x", 16, 64), integers(f"{key}/tied", 0, 6, 16, 64).astype(np.float64)
    return (
        Part("sort", f.sort, {"x": x}),
        Part("order_ties", f.stable_order, {"keys": tied}, gradients=False),
    )


def _reductions(key: str) -> Parts:
    x = 1 + normal(f"{key}/x", 4096, 8)
    fewer = normal(f"{key}/fewer", 256, 8)
    return (
        Part("total", f.total, {"x": x}),
        Part("mean_square", f.mean_square, {"x": x}),
        Part("largest", f.largest, {"x": fewer}),
    )


def _cumsum(key: str) -> Parts:
    return (Part("cumsum", f.cumsum, {"x": normal(f"{key}/x", 16, 64)}),)


def _exact(key: str) -> Parts:
    """No sum exceeds 256, up to which bfloat16 has every whole number."""

    def whole(name: str, *shape: int) -> np.ndarray:
        return integers(f"{key}/{name}", -2, 3, *shape).astype(np.float64)

    side, pads = 6, ((2, 0), (0, 1))
    x, image = whole("x", 16, 12), whole("image", 1, side, side, 4)
    strided = functools.partial(f.conv, stride=2, pads=pads)
    depthwise = functools.partial(f.conv, pads=((1, 1), (1, 1)), groups=4)
    index = integers(f"{key}/index", 0, 6, 16)
    made = (
        Part("linear", f.linear, {"x": x, "w": whole("w", 12, 8), "b": whole("b", 8)}),
        Part("conv", strided, {"x": image, "w": whole("kernel", 3, 3, 4, 6)}),
        Part("depthwise", depthwise, {"x": image, "w": whole("depthwise", 3, 3, 1, 4)}),
        Part("pool", f.max_pool3x3, {"x": image}),
        Part("total", f.total, {"x": x}),
        Part("cumsum", f.cumsum, {"x": x}),
        Part("scatter_add", f.scatter_add, {"base": whole("base", 6, 12), "index": index, "rows": x}),
    )
    return tuple(Part(p.name, p.function, p.inputs, whole=True) for p in made)


def _threefry(key: str) -> Parts:
    words = {"key": np.array([0x13198A2E, 0x03707344], np.uint32)}
    del key
    return (Part("bits", f.threefry, words, False, lambda k: threefry.bits(k, 1000)),)


def _precision(key: str) -> Parts:
    x = {"x": normal(f"{key}/x", 256, 512), "w": normal(f"{key}/w", 512, 256), "b": np.zeros(256)}
    image = {"x": normal(f"{key}/image", 4, 16, 16, 32), "w": normal(f"{key}/kernel", 3, 3, 32, 32)}
    return (Part("matmul", f.linear, x, gradients=False), Part("conv", f.conv, image, gradients=False))


def _scaled_fusion(key: str) -> Parts:
    w, kernel = normal(f"{key}/w", 15, 32, scale=0.3), normal(f"{key}/kernel", 3, 3, 4, 8, scale=0.2)
    image = {"x": normal(f"{key}/image", 2, 8, 8, 4), "w": kernel, "b": normal(f"{key}/c", 8)}
    return (
        Part("linear", f.scaled_linear, {"x": normal(f"{key}/x", 32, 15), "w": w, "b": normal(f"{key}/b", 32)}),
        Part("conv", f.scaled_conv, image),
    )


def _long_dot(key: str) -> Parts:
    del key
    ones = {"ys": np.ones((10**6, 3)), "w": np.array([1.0, 2.0, 3.0])}
    return (Part("gradient", f.long_dot_gradient, ones, gradients=False),)


PARTS: dict[str, Callable[[str], Parts]] = {
    "silu": lambda key: _pointwise(key, f.silu),
    "gelu": lambda key: _pointwise(key, f.gelu, f.gelu_tanh),
    "erf": lambda key: _pointwise(key, f.erf),
    "linear": _linear,
    "rmsnorm": _rms_norm,
    "layernorm": _layer_norm,
    "batchnorm": _batch_norm,
    "softmax-ce": _softmax,
    "attention": _attention,
    "conv": lambda key: _convolutions(key, tuple(CONVOLUTIONS)),
    "grouped-conv": lambda key: _convolutions(key, tuple(GROUPED)),
    "max-pool": _max_pool,
    "gather-scatter": _gather_scatter,
    "argmax": _argmax,
    "cumsum": _cumsum,
    "sort": _sort,
    "reductions": _reductions,
    "exact": _exact,
    "threefry": _threefry,
    "precision": _precision,
    "scaled-fusion": _scaled_fusion,
    "long-dot-gradient": _long_dot,
}
