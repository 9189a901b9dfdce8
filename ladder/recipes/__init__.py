"""What each rung trains, as data. A rung is a module with `recipes(data)`; cheap rungs come first."""

from collections.abc import Callable, Sequence

from ladder.errors import LadderError
from ladder.recipes import mnist
from ladder.recipes.recipe import Data, Recipe

__all__ = ["RUNGS", "Data", "Recipe", "select"]

RUNGS: dict[str, Callable[[Data], tuple[Recipe, ...]]] = {"mnist": mnist.recipes}
PLANNED = ("suite", "cifar", "imagenette", "imagenet")


def select(recipes: Sequence[Recipe], nets: Sequence[str] = (), arms: Sequence[str] = ()) -> tuple[Recipe, ...]:
    """The recipes of a rung with these nets and arms, in the rung's order; none named means all.

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
    chosen = tuple(r for r in recipes if (not nets or r.net in nets) and (not arms or r.arm in arms))
    if not chosen:
        raise LadderError(f"rung {rung} has no recipe with nets {', '.join(nets)} and arms {', '.join(arms)}")
    return chosen


def rung_recipes(rung: str, data: Data) -> tuple[Recipe, ...]:
    """The recipes of a rung on a dataset. Raises LadderError for a rung that is not there."""
    if rung not in RUNGS:
        later = " (planned, not built yet)" if rung in PLANNED else ""
        raise LadderError(f"there is no rung '{rung}'{later}; the rungs are: {', '.join(RUNGS)}")
    return RUNGS[rung](data)
