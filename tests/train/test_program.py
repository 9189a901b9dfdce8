"""The exported arithmetic, held against a NumPy float64 implementation written from the published recipe alone."""

from collections.abc import Callable

import numpy as np
import pytest

from ladder.data.identity import Arrays
from ladder.lowerers import Executable
from ladder.train.artifact import Program
from ladder.train.layout import initial_state

Host = dict[str, np.ndarray]
NETS = ("linear", "mlp", "cnn")
BATCH, TEST_BATCH = 16, 64
KEY = np.zeros(2, np.uint32)


def padded(x: np.ndarray) -> np.ndarray:
    """`[9, n, h, w, c]`: the neighbours of each pixel, zero outside."""
    n, h, w, c = x.shape
    big = np.zeros((n, h + 2, w + 2, c))
    big[:, 1:-1, 1:-1] = x
    return np.stack([big[:, i : i + h, j : j + w] for i in range(3) for j in range(3)])


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("knhwc,kco->nhwo", padded(x), w.reshape(9, *w.shape[2:]), optimize=True) + b


def conv_back(x: np.ndarray, w: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of input, weight and bias."""
    dw = np.einsum("knhwc,nhwo->kco", padded(x), g, optimize=True).reshape(w.shape)
    turned = w[::-1, ::-1].transpose(0, 1, 3, 2)  # a correlation's transpose: the kernel turned round
    return conv(g, turned, np.zeros(w.shape[2])), dw, g.sum((0, 1, 2))


class ByHand:
    """Forward and backward of the three nets, keeping what the backward pass needs."""

    def __init__(self, params: Host) -> None:
        self.p = {name.removeprefix("params/"): v.astype(np.float64) for name, v in params.items() if name != "step"}
        self.dense = sorted({name[:3] for name in self.p if name.startswith("fc")})

    def logits(self, images: np.ndarray) -> np.ndarray:
        x, p = images / 255.0, self.p
        self.kept: dict[str, np.ndarray] = {}
        for name in ("conv1", "conv2"):
            if f"{name}/w" in p:
                self.kept[name] = x
                x = np.maximum(conv(x, p[f"{name}/w"], p[f"{name}/b"]), 0)
                self.kept[f"{name} out"] = x
        if "conv2/w" in p:
            n, h, w, c = x.shape
            windows = x.reshape(n, h // 2, 2, w // 2, 2, c)
            x = windows.max((2, 4))
            first = windows == x[:, :, None, :, None]
            self.kept["share"] = first / first.sum((2, 4), keepdims=True)
        x = x.reshape(len(x), -1)
        for name in self.dense:
            self.kept[name] = x
            x = x @ p[f"{name}/w"] + p[f"{name}/b"]
            if name != self.dense[-1]:
                x = np.maximum(x, 0)
                self.kept[f"{name} out"] = x
        return x

    def loss_and_gradient(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, Host]:
        out = self.logits(images)
        rows = np.arange(len(labels))
        shifted = out - out.max(1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        g = np.exp(log_p)
        g[rows, labels] -= 1
        g /= len(labels)
        gradient: Host = {}
        for name in reversed(self.dense):
            if f"{name} out" in self.kept:
                g = g * (self.kept[f"{name} out"] > 0)
            gradient[f"{name}/w"], gradient[f"{name}/b"] = self.kept[name].T @ g, g.sum(0)
            g = g @ self.p[f"{name}/w"].T
        if "conv2" in self.kept:
            share = self.kept["share"]
            n, h, _, w, _, c = share.shape
            g = (g.reshape(n, h, 1, w, 1, c) * share).reshape(n, 2 * h, 2 * w, c)
            for name in ("conv2", "conv1"):
                g = g * (self.kept[f"{name} out"] > 0)
                g, gradient[f"{name}/w"], gradient[f"{name}/b"] = conv_back(self.kept[name], self.p[f"{name}/w"], g)
        return float(-log_p[rows, labels].mean()), gradient


def put(exe: Executable, host: Host) -> Host:
    return {name: exe.put(value) for name, value in host.items()}


def start(program: Program, net: str) -> Host:
    """An initial state with biases away from zero, so that every parameter matters."""
    state = initial_state(program.leaves, net, 1)
    draw = np.random.default_rng(1)
    return {
        name: v if name == "step" else v + draw.normal(0, 0.01, v.shape).astype(np.float32) for name, v in state.items()
    }


@pytest.mark.parametrize("net", NETS)
def test_a_step_is_plain_sgd_on_the_mean_cross_entropy(
    net: str, program: Callable[[str], Program], compiled: Callable[[str], Executable], learnable: Arrays
) -> None:
    exe, state, lr = compiled(net), start(program(net), net), np.float32(0.1)
    images, labels = learnable.train_images, learnable.train_labels.astype(np.int32)
    idx = np.arange(32, 32 + BATCH, dtype=np.int32)
    batch = exe.feed(exe.put(images), exe.put(labels), idx, {})
    after, metrics = exe.step(put(exe, state), batch, lr, KEY)
    loss, gradient = ByHand(state).loss_and_gradient(images[idx].astype(np.float64), labels[idx])
    assert float(exe.get(metrics["loss"])) == pytest.approx(loss, rel=1e-5)
    assert exe.get(after["step"]) == 1
    for name, g in gradient.items():
        moved = exe.get(after[f"params/{name}"]).astype(np.float64) - state[f"params/{name}"]
        # 1e-4 of the leaf's largest update, and what storing the sum in float32 rounds away
        allowed = 1e-4 * abs(0.1 * g).max() + 2.0**-24 * abs(state[f"params/{name}"]).max()
        assert abs(moved + 0.1 * g).max() < allowed, name


@pytest.mark.parametrize("net", NETS)
def test_eval_counts_what_numpy_counts(
    net: str, program: Callable[[str], Program], compiled: Callable[[str], Executable], learnable: Arrays
) -> None:
    exe, state = compiled(net), start(program(net), net)
    images, labels = learnable.test_images, learnable.test_labels.astype(np.int32)
    idx = np.full(TEST_BATCH, -1, np.int32)
    idx[:40] = np.arange(60, 100)
    batch = exe.test_feed(exe.put(images), exe.put(labels), idx, {})
    correct, top5, loss_sum = (exe.get(v) for v in exe.eval(put(exe, state), batch))
    by_hand = ByHand(state)
    out = by_hand.logits(images[60:].astype(np.float64))
    own = out[np.arange(40), labels[60:]]
    assert correct == (out.argmax(1) == labels[60:]).sum()
    assert top5 == ((out > own[:, None]).sum(1) < 5).sum()
    assert loss_sum == pytest.approx(40 * by_hand.loss_and_gradient(images[60:] * 1.0, labels[60:])[0], rel=1e-5)


def scored(exe: Executable, logits: np.ndarray, label: int, weight: float = 1.0) -> tuple[int, int, float]:
    """Eval of the linear net with a bias of these logits on a black image, the others padded."""
    state = {
        "params/fc1/w": np.zeros((784, 10), np.float32),
        "params/fc1/b": np.asarray(logits, np.float32),
        "step": np.zeros((), np.int32),
    }
    batch = {
        "image": np.zeros((TEST_BATCH, 28, 28, 1), np.uint8),
        "label": np.full(TEST_BATCH, label, np.int32),
        "weight": np.eye(1, TEST_BATCH, dtype=np.float32)[0] * np.float32(weight),
    }
    correct, top5, loss = (exe.get(v) for v in exe.eval(put(exe, state), put(exe, batch)))
    return int(correct), int(top5), float(loss)


@pytest.fixture
def linear(compiled: Callable[[str], Executable]) -> Executable:
    return compiled("linear")


def test_the_first_maximum_wins_a_tie(linear: Executable) -> None:
    tie = [0, 3, 1, 3, 0, 0, 0, 0, 0, 0]
    assert scored(linear, np.array(tie), 1)[0] == 1
    assert scored(linear, np.array(tie), 3)[0] == 0
    assert [scored(linear, np.zeros(10), label)[0] for label in range(10)] == [1] + [0] * 9


def test_top5_is_fewer_than_five_strictly_greater(linear: Executable) -> None:
    descending = np.arange(10, 0, -1.0)
    assert [scored(linear, descending, label)[1] for label in range(10)] == [1] * 5 + [0] * 5
    assert scored(linear, np.zeros(10), 9)[1] == 1  # nothing is greater
    assert scored(linear, np.array([5, 4, 3, 2, 1, 1, 1, 0, 0, 0]), 6)[1] == 1  # four are greater
    assert scored(linear, np.array([6, 5, 4, 3, 2, 1, 1, 0, 0, 0]), 5)[1] == 0  # five are greater


def test_padding_counts_for_nothing(linear: Executable) -> None:
    assert scored(linear, np.arange(10.0), 9, weight=0.0) == (0, 0, 0.0)


@pytest.mark.parametrize("label", range(10))
def test_logits_that_are_not_numbers_are_never_correct(linear: Executable, label: int) -> None:
    nan = np.full(10, np.nan)
    assert scored(linear, nan, label)[:2] == (0, 0)
    one = np.arange(10.0)
    one[label] = np.nan
    assert scored(linear, one, label)[:2] == (0, 0)
    one[label] = np.inf
    assert scored(linear, one, label)[0] == 0


def test_a_nan_elsewhere_counts_against_the_label(linear: Executable) -> None:
    nan = np.array([np.nan, 9.0, 1, 1, 1, 1, 1, 1, 1, 1])
    assert scored(linear, nan, 1)[0] == 0


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30, 3e38])
def test_the_loss_of_huge_logits_is_right_to_one_unit_in_the_last_place_of_the_largest(
    linear: Executable, size: float
) -> None:
    ulp = float(np.spacing(np.float32(size)))
    one = np.eye(1, 10)[0] * size
    assert scored(linear, one, 0)[2] == pytest.approx(0, abs=ulp)
    assert scored(linear, one, 1)[2] == pytest.approx(size, abs=ulp)
    assert scored(linear, np.full(10, size), 4)[2] == pytest.approx(np.log(10), abs=ulp)
    assert scored(linear, np.full(10, -size), 4)[2] == pytest.approx(np.log(10), abs=ulp)


def test_the_feed_gathers_in_order_and_pads_with_weight_zero(linear: Executable, learnable: Arrays) -> None:
    idx = np.full(BATCH, -1, np.int32)
    idx[:3] = [5, 255, 0]
    labels = learnable.train_labels.astype(np.int32)
    fed = linear.feed(linear.put(learnable.train_images), linear.put(labels), idx, {})
    batch = {name: linear.get(value) for name, value in fed.items()}
    assert {k: str(v.dtype) for k, v in batch.items()} == {"image": "uint8", "label": "int32", "weight": "float32"}
    np.testing.assert_array_equal(batch["image"][:3], learnable.train_images[[5, 255, 0]])
    np.testing.assert_array_equal(batch["label"][:3], labels[[5, 255, 0]])
    np.testing.assert_array_equal(batch["weight"], [1] * 3 + [0] * 13)
