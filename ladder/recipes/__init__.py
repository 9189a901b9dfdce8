"""What each rung trains, as data. Cheap rungs come first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ladder.errors import LadderError
from ladder.recipes import cifar, imagenette, mnist
from ladder.recipes.recipe import Data, Recipe

__all__ = ["RUNGS", "Data", "Recipe", "Rung", "rung_recipes", "select"]


@dataclass(frozen=True)
class Rung:
    """The dataset that a rung trains on, as it was published, and its recipes on that or another one."""

    data: Data
    recipes: Callable[[Data], tuple[Recipe, ...]]


RUNGS = {
    "mnist": Rung(mnist.MNIST, lambda data: (*mnist.recipes(data), *mnist.grid(data))),
    "cifar": Rung(cifar.CIFAR10, cifar.recipes),
    "imagenette": Rung(imagenette.IMAGENETTE, imagenette.recipes),
}
PLANNED = ("suite", "imagenet")


def select(recipes: Sequence[Recipe], nets: Sequence[str] = (), arms: Sequence[str] = ()) -> tuple[Recipe, ...]:
    """The recipes of a rung with these nets and arms, in the rung's order; none named means the rung's own.

    An optional recipe is chosen when its arm is named, or its net and the rung has no other recipe of that net.
    Raises LadderError for a net or arm that the rung does not have.
    """
    rung = recipes[0].rung
    for what, asked, known in (
        ("net", nets, list(dict.fromkeys(r.net for r in recipes))),
        ("arm", arms, list(dict.fromkeys(r.arm for r in recipes))),
    ):
        for name in asked:
            if name not in known:
                raise LadderError(f"rung {rung} has no {what} '{name}'; it has: {', '.join(known)}")
    ordinary = {r.net for r in recipes if not r.optional}

    def chosen(r: Recipe) -> bool:
        named = r.arm in arms or (r.net in nets and r.net not in ordinary)
        return (not nets or r.net in nets) and (not arms or r.arm in arms) and (named or not r.optional)

    if not (found := tuple(r for r in recipes if chosen(r))):
        raise LadderError(f"rung {rung} has no recipe with nets {', '.join(nets)} and arms {', '.join(arms)}")
    return found


def rung_recipes(rung: str, data: Data | None = None) -> tuple[Recipe, ...]:
    """The recipes of a rung on a dataset, by default its published one. Raises LadderError for an unknown rung."""
    if rung not in RUNGS:
        later = " (planned, not built yet)" if rung in PLANNED else ""
        raise LadderError(f"there is no rung '{rung}'{later}; the rungs are: {', '.join(RUNGS)}")
    return RUNGS[rung].recipes(data or RUNGS[rung].data)
