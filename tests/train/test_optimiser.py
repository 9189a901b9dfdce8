"""The optimisers against the published formulas in NumPy float64, and against optax."""

from typing import Any

import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from ladder.recipes.recipe import Optimiser
from ladder.train.optimiser import SLOTS, UPDATES, averaged, clipped, of_tensor

Host = NDArray[np.float64]
KINDS = {
    "sgd": Optimiser("sgd"),
    "nesterov": Optimiser("nesterov", momentum=0.9),
    "adamw": Optimiser("adamw", decay=1e-4),
    "adamw that decays much": Optimiser("adamw", decay=0.5),
    "adamw with another epsilon": Optimiser("adamw", epsilon=1e-2),
    "momentum": Optimiser("momentum", momentum=0.9),
    "momentum with decay": Optimiser("momentum", momentum=0.9, decay=0.1),
    "rmsprop": Optimiser("rmsprop", momentum=0.9, epsilon=1e-3),
    "rmsprop of MobileNetV2": Optimiser("rmsprop", momentum=0.9, decay=0.1, epsilon=1.0),
    "lamb": Optimiser("lamb", decay=0.02, epsilon=1e-6),
    "lamb without decay": Optimiser("lamb", epsilon=1e-6),
}
RATES = (0.02, 0.01, 0.02, 0.005, 0.02)
CONSTANT = (0.02,) * len(RATES)


def gradients() -> list[Host]:
    draw = np.random.default_rng(0)
    return [draw.normal(size=(7, 5)) * 10.0 ** draw.integers(-4, 2, (7, 5)) for _ in RATES]


def start() -> Host:
    return np.random.default_rng(1).normal(size=(7, 5))


def ours(optimiser: Optimiser, rates: tuple[float, ...] = RATES) -> list[Host]:
    """The parameter after each step, in float32."""
    p = start().astype(np.float32)
    slots = {slot: np.full_like(p, value) for slot, value in SLOTS[optimiser.name].items()}
    path: list[Host] = []
    for t, (g, lr) in enumerate(zip(gradients(), rates, strict=True)):
        arguments = (np.float32(g), slots, np.float32(lr), np.int32(t))
        moved, after = UPDATES[optimiser.name](optimiser, p, *arguments)  # type: ignore[arg-type]
        p, slots = np.asarray(moved), {k: np.asarray(v) for k, v in after.items()}
        assert p.dtype == np.float32
        path.append(p.astype(np.float64))
    return path


def by_hand(optimiser: Optimiser) -> list[Host]:
    """The published formulas, in float64: reference/recipes.md section 0, and the papers of RMSProp and LAMB."""
    p, m, v, path = start(), np.zeros((7, 5)), np.zeros((7, 5)), list[Host]()
    s = np.ones((7, 5))
    for t, (g, lr) in enumerate(zip(gradients(), RATES, strict=True), 1):
        if optimiser.name == "sgd":
            p = p - lr * g
        elif optimiser.name == "nesterov":
            v = 0.9 * v + g
            p = p - lr * (0.9 * v + g)
        elif optimiser.name == "momentum":
            v = 0.9 * v + (g + optimiser.decay * p)
            p = p - lr * v
        elif optimiser.name == "rmsprop":
            g = g + optimiser.decay * p
            s = 0.9 * s + 0.1 * g * g
            v = 0.9 * v + g / np.sqrt(s + optimiser.epsilon)
            p = p - lr * v
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            d = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + optimiser.epsilon) + optimiser.decay * p
            scaled = optimiser.name == "lamb" and optimiser.decay
            p = p - lr * (np.sqrt((p * p).sum() / (d * d).sum()) if scaled else 1.0) * d
        path.append(p)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_five_steps_are_the_formulas(kind: str) -> None:
    for found, wanted in zip(ours(KINDS[kind]), by_hand(KINDS[kind]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def of_optax(optimiser: Optimiser, lr: float) -> optax.GradientTransformation:
    decayed, epsilon = optax.add_decayed_weights(optimiser.decay), optimiser.epsilon
    if optimiser.name == "lamb" and not optimiser.decay:  # optax scales this too; timm, and we, do not
        return optax.adam(lr, eps=epsilon)
    return {
        "sgd": optax.sgd(lr),
        "nesterov": optax.sgd(lr, momentum=0.9, nesterov=True),
        "adamw": optax.adamw(lr, weight_decay=optimiser.decay, eps=epsilon),
        "momentum": optax.chain(decayed, optax.sgd(lr, momentum=0.9)),
        "rmsprop": optax.chain(
            decayed, optax.rmsprop(lr, 0.9, eps=epsilon, eps_in_sqrt=True, initial_scale=1.0, momentum=0.9)
        ),
        "lamb": optax.lamb(lr, weight_decay=optimiser.decay, eps=epsilon),
    }[optimiser.name]


@pytest.mark.parametrize("kind", KINDS)
def test_optax_agrees(kind: str) -> None:
    """RMSProp at a constant rate only: optax, like TensorFlow, has the rate inside what momentum sums up."""
    optimiser = KINDS[kind]
    rates = CONSTANT if optimiser.name == "rmsprop" else RATES
    p, state, path = np.float32(start()), None, ours(optimiser, rates)
    for g, lr, wanted in zip(gradients(), rates, path, strict=True):
        with_rate = of_optax(optimiser, lr)
        state = with_rate.init(p) if state is None else state
        updates, state = with_rate.update(np.float32(g), state, p)
        p = np.asarray(optax.apply_updates(p, updates))
        # optax forms 1 - 0.999^t in float32, which is off by 6e-5 of itself at step 1
        np.testing.assert_allclose(p, wanted, rtol=1e-5, atol=1e-4 * lr)


def test_decay_moves_a_parameter_without_a_gradient_and_a_plain_adam_does_not() -> None:
    p, none = np.float32(2.0), np.float32(0.0)
    slots = {"mean": none, "square": none}
    for decay, wanted in ((0.5, 2.0 - 0.1 * 0.5 * 2.0), (0.0, 2.0)):
        moved, _ = UPDATES["adamw"](Optimiser("adamw", decay=decay), p, none, slots, np.float32(0.1), np.int32(0))  # type: ignore[arg-type]
        assert float(moved) == pytest.approx(wanted, rel=1e-6)


def test_lamb_moves_a_tensor_by_its_own_size_and_one_of_zeros_as_adam_does() -> None:
    kind, g = KINDS["lamb"], np.float32(gradients()[0])
    for p in (start().astype(np.float32), np.zeros((7, 5), np.float32)):
        moved, _ = UPDATES["lamb"](kind, p, g, {"mean": 0 * g, "square": 0 * g}, np.float32(0.1), np.int32(0))  # type: ignore[arg-type]
        length = np.linalg.norm(np.asarray(moved) - p)
        assert length == pytest.approx(0.1 * (np.linalg.norm(p) or np.sqrt(g.size)), rel=1e-2)


@pytest.mark.parametrize(
    ("name", "rank", "decays"),
    [("conv1/w", 4, True), ("fc1/w", 2, True), ("fc1/b", 1, False), ("norm/gamma", 1, False),
     ("block1/scale", 1, False), ("cls", 2, False), ("pos", 2, False)],
)  # fmt: skip
def test_decay_falls_on_weights_only_where_the_recipe_says_so(name: str, rank: int, decays: bool) -> None:
    weights, every = Optimiser("adamw", decay=0.05, decayed="weights"), Optimiser("adamw", decay=0.05)
    assert of_tensor(weights, f"params/{name}", rank).decay == (0.05 if decays else 0.0)
    assert of_tensor(every, f"params/{name}", rank) is every


def test_a_long_gradient_is_scaled_to_the_limit_and_a_short_one_is_left() -> None:
    g = {"a": np.array([3, 0], np.float32), "b": np.array([[4]], np.float32)}  # of norm 5
    for limit, norm in ((1.0, 1.0), (5.1, 5.0), (1e9, 5.0)):
        theirs: Any = optax.clip_by_global_norm(limit).update(g, optax.EmptyState())[0]
        for name, value in clipped(g, limit).items():  # type: ignore[arg-type]
            np.testing.assert_allclose(np.asarray(value), g[name] * norm / 5, rtol=1e-6)
            np.testing.assert_allclose(np.asarray(value), np.asarray(theirs[name]), rtol=1e-6)
    zero = {"a": np.zeros(2, np.float32)}
    assert not np.asarray(clipped(zero, 1.0)["a"]).any()  # type: ignore[arg-type]


def test_the_average_follows_closely_at_first_and_then_at_its_own_decay() -> None:
    """(1 + t) / (10 + t) reaches 0.99 at step 890."""
    average, by_hand = np.float32(0.0), 0.0
    values = np.random.default_rng(2).normal(size=1000).astype(np.float32)
    for t, value in enumerate(values):
        average = np.asarray(averaged(average, value, 0.99, np.int32(t)))  # type: ignore[arg-type]
        d = (1 + t) / (10 + t) if t < 890 else 0.99
        by_hand = d * by_hand + (1 - d) * float(value)
        if t == 0:
            assert float(average) == pytest.approx(0.9 * values[0], rel=1e-6)
    assert float(average) == pytest.approx(by_hand, rel=1e-4, abs=1e-6)
