"""Initial parameters: golden for ever, drawn in a canonical layout, of the variance that the recipe's rule says."""

import hashlib
import math

import numpy as np
import pytest

from ladder import rng
from ladder.train.layout import Leaf, draw, initial_state, parameter

SHAPES: dict[str, dict[str, tuple[tuple[int, ...], tuple[int, int, int] | None]]] = {
    "mlp": {
        "fc1/w": ((784, 512), (28, 28, 1)),
        "fc2/w": ((512, 512), None),
        "fc3/w": ((512, 10), None),
    },
    "cnn": {
        "conv1/w": ((3, 3, 1, 32), None),
        "conv2/w": ((3, 3, 32, 32), None),
        "fc1/w": ((6272, 512), (14, 14, 32)),
        "fc2/w": ((512, 512), None),
        "fc3/w": ((512, 10), None),
    },
}
FIRST = {  # the first three values at seeds 1 and 2, as float32 in hex; then the SHA-256 of all bytes, its first 16
    ("mlp", "fc1/w", 1): (
        "0x1.d888300000000p-5",
        "0x1.951bec0000000p-8",
        "0x1.dfbc080000000p-6",
        "db4a2a65d6346f21",
    ),
    ("mlp", "fc1/w", 2): (
        "-0x1.63ddf80000000p-8",
        "-0x1.52c9c80000000p-7",
        "0x1.9470d80000000p-8",
        "eb1d40393c232705",
    ),
    ("mlp", "fc2/w", 1): (
        "0x1.11192c0000000p-5",
        "-0x1.9f5cb80000000p-6",
        "0x1.58f5820000000p-5",
        "4041094efb9219d9",
    ),
    ("mlp", "fc2/w", 2): (
        "0x1.48ec1c0000000p-5",
        "-0x1.2ac0ee0000000p-8",
        "0x1.e6646c0000000p-6",
        "c78e776835496557",
    ),
    ("mlp", "fc3/w", 1): (
        "-0x1.0bbb560000000p-5",
        "0x1.c3045a0000000p-7",
        "-0x1.6d86700000000p-4",
        "2c04c53dfb6f6fc0",
    ),
    ("mlp", "fc3/w", 2): (
        "-0x1.0b8b600000000p-4",
        "0x1.69241e0000000p-5",
        "-0x1.8a4bee0000000p-5",
        "eded9d3cfc6eb077",
    ),
    ("cnn", "conv1/w", 1): (
        "0x1.3efe120000000p-5",
        "0x1.b30cae0000000p-4",
        "-0x1.09b9c60000000p-5",
        "12cd5d548b38ce46",
    ),
    ("cnn", "conv1/w", 2): (
        "0x1.2a09640000000p-4",
        "-0x1.6d786e0000000p-3",
        "-0x1.57b83c0000000p-6",
        "fc4fafacbf451659",
    ),
    ("cnn", "conv2/w", 1): (
        "-0x1.e631660000000p-8",
        "0x1.06e8240000000p-3",
        "0x1.e399480000000p-5",
        "b279fbe53c9990a4",
    ),
    ("cnn", "conv2/w", 2): (
        "0x1.95a0c20000000p-4",
        "0x1.7ee6aa0000000p-6",
        "0x1.0945040000000p-3",
        "46706d40164bff10",
    ),
    ("cnn", "fc1/w", 1): (
        "-0x1.cf47300000000p-9",
        "0x1.7bccc80000000p-7",
        "0x1.7d16620000000p-5",
        "b018e3af9d4ee1e2",
    ),
    ("cnn", "fc1/w", 2): (
        "0x1.c0e8fa0000000p-11",
        "0x1.c7b0b60000000p-6",
        "0x1.73ef460000000p-7",
        "ca8ca2733ea9f121",
    ),
    ("cnn", "fc2/w", 1): (
        "-0x1.3338800000000p-4",
        "-0x1.9ff1b40000000p-6",
        "-0x1.94171a0000000p-5",
        "51961392ec6f72f1",
    ),
    ("cnn", "fc2/w", 2): (
        "-0x1.9afb340000000p-5",
        "0x1.d04e980000000p-8",
        "0x1.63ba420000000p-4",
        "454a0127c46f3262",
    ),
    ("cnn", "fc3/w", 1): (
        "0x1.4580420000000p-5",
        "0x1.848ab20000000p-5",
        "0x1.1844380000000p-4",
        "d11994b40a7bccea",
    ),
    ("cnn", "fc3/w", 2): (
        "0x1.ad21b00000000p-5",
        "0x1.3d319e0000000p-5",
        "0x1.5efc2e0000000p-6",
        "f60aa69afe73977b",
    ),
}
WEIGHTS = [(net, name) for net, names in SHAPES.items() for name in names]


def weight(net: str, name: str) -> Leaf:
    return parameter(name, *SHAPES[net][name])


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("net", "name"), WEIGHTS)
def test_initial_values_never_change(net: str, name: str, seed: int) -> None:
    values = draw(weight(net, name), net, seed)
    first = [float(v).hex() for v in values.ravel()[:3]]
    assert (*first, hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()[:16]) == FIRST[net, name, seed]


@pytest.mark.parametrize(("net", "name"), WEIGHTS)
def test_the_variance_is_the_rules(net: str, name: str) -> None:
    """Convolutions 2 / (O kH kW), dense 2 / (in + out); within 5 standard errors (the sampler's kurtosis is 2.6)."""
    leaf = weight(net, name)
    values = draw(leaf, net, 3).astype(np.float64)
    rule = 2 / (leaf.shape[0] * leaf.shape[1] * leaf.shape[3]) if values.ndim == 4 else 2 / sum(leaf.shape)
    assert leaf.sigma == pytest.approx(math.sqrt(rule))
    assert abs(values.var() / rule - 1) < 5 * math.sqrt(1.6 / values.size)
    assert abs(values.mean()) < 5 * math.sqrt(rule / values.size)
    assert abs(values).max() <= 3 * leaf.sigma


def test_a_convolution_is_drawn_as_oihw_and_transposed() -> None:
    """OIHW: a convolution's values do not depend on the layout it is stored in."""
    leaf = weight("cnn", "conv2/w")
    oihw = sampled("cnn", leaf, (32, 32, 3, 3))
    hwio = draw(leaf, "cnn", 1)
    for o, i, h, w in [(0, 0, 0, 0), (31, 0, 2, 1), (5, 17, 0, 2), (31, 31, 2, 2)]:
        assert hwio[h, w, i, o] == oihw[o, i, h, w]


def test_a_dense_layer_on_an_image_is_drawn_channel_first_and_transposed() -> None:
    leaf = weight("cnn", "fc1/w")
    chw = sampled("cnn", leaf, (32 * 14 * 14, 512))  # in, out with the published nets' flattening
    ours = draw(leaf, "cnn", 1)
    for c, h, w, out in [(0, 0, 0, 0), (1, 0, 0, 3), (31, 13, 13, 511), (7, 5, 2, 100)]:
        assert ours[(h * 14 + w) * 32 + c, out] == chw[(c * 14 + h) * 14 + w, out]


def sampled(net: str, leaf: Leaf, shape: tuple[int, ...]) -> np.ndarray:
    """The documented sampler in the canonical shape: the sum of three uniforms on [-1/2, 1/2), times 2 sigma."""
    a, b, c = rng.uniform(f"init/{net}/{leaf.name}/seed=1", (3, *shape)) - 0.5
    return ((a + b + c) * 2 * leaf.sigma).astype(np.float32)


def test_seeds_nets_and_parameters_have_streams_of_their_own() -> None:
    a = weight("mlp", "fc2/w")
    drawn = [draw(a, "mlp", 1), draw(a, "mlp", 2), draw(a, "cnn", 1), draw(parameter("fc9/w", a.shape), "mlp", 1)]
    for i, x in enumerate(drawn):
        for y in drawn[:i]:
            assert abs(np.corrcoef(x.ravel(), y.ravel())[0, 1]) < 5 / math.sqrt(x.size)


def test_the_zero_rule_is_zero_at_every_seed() -> None:
    for seed in (1, 2):
        assert not draw(parameter("fc1/w", (784, 10), (28, 28, 1), "zero"), "linear", seed).any()


def test_biases_start_at_zero() -> None:
    assert not draw(parameter("conv1/b", (32,)), "cnn", 1).any()


def test_a_shape_without_a_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no init rule for odd/w with shape \(2, 3, 4\)"):
        parameter("odd/w", (2, 3, 4))


def test_the_state_starts_at_step_zero_in_the_layouts_dtypes() -> None:
    state = initial_state((weight("mlp", "fc3/w"), parameter("fc3/b", (10,)), Leaf("step", (), "int32")), "mlp", 1)
    assert {name: (v.shape, str(v.dtype)) for name, v in state.items()} == {
        "params/fc3/w": ((512, 10), "float32"),
        "params/fc3/b": ((10,), "float32"),
        "step": ((), "int32"),
    }
    assert state["step"] == 0


def test_a_layout_survives_json() -> None:
    import dataclasses
    import json

    leaf = weight("cnn", "fc1/w")
    assert Leaf.from_json(json.loads(json.dumps(dataclasses.asdict(leaf)))) == leaf


@pytest.mark.parametrize(
    ("name", "shape", "value"),
    [
        ("norm1/gamma", (16,), 1.0),
        ("norm1/beta", (16,), 0.0),
        ("conv1/b", (16,), 0.0),
        ("cls", (1, 1, 192), 0.0),
        ("pos", (197, 192), 0.0),
        ("stage1_block1/scale", (96,), 1e-6),
    ],
)
def test_some_parameters_start_at_a_value(name: str, shape: tuple[int, ...], value: float) -> None:
    leaf = parameter(name, shape, layer_scale=1e-6)
    np.testing.assert_array_equal(draw(leaf, "net", 1), np.full(shape, value, np.float32))
    assert not draw(parameter(name, shape, rule="zero"), "net", 1).any()


def test_another_vector_has_variance_two_by_n() -> None:
    leaf = parameter("token/w", (4000,))
    assert leaf.sigma == pytest.approx(math.sqrt(2 / 4000))
    assert draw(leaf, "net", 1).var() == pytest.approx(2 / 4000, rel=0.15)


def test_a_depthwise_convolution_is_drawn_as_oihw_with_one_input_and_its_own_fan_out() -> None:
    """HWIO (kh, kw, 1, C) here, OIHW (C, 1, kh, kw) there; the published rule is 2 / (O kH kW) with O = C."""
    leaf = parameter("dw/w", (3, 5, 1, 24))
    assert (leaf.canonical, leaf.sigma) == ((24, 1, 3, 5), pytest.approx(math.sqrt(2 / (24 * 15))))
    uniform = rng.uniform("init/net/params/dw/w/seed=1", (3, 24, 1, 3, 5)).sum(0) - 1.5
    wanted = (uniform * 2 * leaf.sigma).transpose(2, 3, 1, 0)
    np.testing.assert_allclose(draw(leaf, "net", 1), wanted, rtol=1e-6)
