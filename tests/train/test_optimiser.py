"""The optimisers against the published formulas in NumPy float64, and against optax."""

import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from ladder.recipes.recipe import Optimiser
from ladder.train.optimiser import SLOTS, UPDATES

Host = NDArray[np.float64]
KINDS = {
    "sgd": Optimiser("sgd"),
    "nesterov": Optimiser("nesterov", momentum=0.9),
    "adamw": Optimiser("adamw", decay=1e-4),
    "adamw that decays much": Optimiser("adamw", decay=0.5),
}
RATES = (0.02, 0.01, 0.02, 0.005, 0.02)


def gradients() -> list[Host]:
    draw = np.random.default_rng(0)
    return [draw.normal(size=(7, 5)) * 10.0 ** draw.integers(-4, 2, (7, 5)) for _ in RATES]


def start() -> Host:
    return np.random.default_rng(1).normal(size=(7, 5))


def ours(optimiser: Optimiser) -> list[Host]:
    """The parameter after each step, in float32."""
    p = start().astype(np.float32)
    slots = {slot: np.zeros_like(p) for slot in SLOTS[optimiser.name]}
    path: list[Host] = []
    for t, (g, lr) in enumerate(zip(gradients(), RATES, strict=True)):
        arguments = (np.float32(g), slots, np.float32(lr), np.int32(t))
        moved, after = UPDATES[optimiser.name](optimiser, p, *arguments)  # type: ignore[arg-type]
        p, slots = np.asarray(moved), {k: np.asarray(v) for k, v in after.items()}
        assert p.dtype == np.float32
        path.append(p.astype(np.float64))
    return path


def by_hand(optimiser: Optimiser) -> list[Host]:
    """reference/recipes.md section 0, in float64."""
    p, m, v, path = start(), np.zeros((7, 5)), np.zeros((7, 5)), list[Host]()
    for t, (g, lr) in enumerate(zip(gradients(), RATES, strict=True), 1):
        if optimiser.name == "sgd":
            p = p - lr * g
        elif optimiser.name == "nesterov":
            v = 0.9 * v + g
            p = p - lr * (0.9 * v + g)
        else:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p - lr * ((m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + optimiser.decay * p)
        path.append(p)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_five_steps_are_the_formulas(kind: str) -> None:
    for found, wanted in zip(ours(KINDS[kind]), by_hand(KINDS[kind]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_optax_agrees(kind: str) -> None:
    optimiser = KINDS[kind]
    p, state, path = np.float32(start()), None, ours(optimiser)
    for g, lr, wanted in zip(gradients(), RATES, path, strict=True):
        with_rate = {
            "sgd": optax.sgd(lr),
            "nesterov": optax.sgd(lr, momentum=0.9, nesterov=True),
            "adamw": optax.adamw(lr, weight_decay=optimiser.decay),
        }[optimiser.name]
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
