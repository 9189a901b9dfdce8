"""What a user asks a run for, checked before anything starts."""

from dataclasses import dataclass
from typing import get_args

from ladder.errors import LadderError
from ladder.lowerers import NAMES as LOWERERS
from ladder.recipes import rung_recipes, select
from ladder.train.batches import Feed
from platforms import profile as profiles


class NotApplicable(LadderError):
    """A rung that cannot run on a platform, for the reason that its profile gives."""


@dataclass(frozen=True)
class Request:
    """What a user asked for. `deadline` is the unix time after which no trial that cannot finish is started."""

    rung: str
    nets: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1, 2, 3)
    platform: str = "cpu"
    lowerer: str | None = None
    data_dir: str | None = None
    epochs: int | None = None
    fault: str | None = None
    reference: str | None = None
    fresh: bool = False
    wait_s: float = 0.0
    deadline: float | None = None
    feed: Feed = "auto"
    accumulate: int = 1  # parts that each batch is cut into


def check(request: Request) -> profiles.Profile:
    """The profile to run on, when nothing is wrong with the request itself: cheap, and asked before anything starts.

    Raises LadderError.
    """
    check_seeds(request.seeds)
    if request.epochs is not None and request.epochs < 1:
        raise LadderError(f"--epochs {request.epochs}: at least 1")
    if request.feed not in get_args(Feed):
        raise LadderError(f"--feed '{request.feed}': one of {', '.join(get_args(Feed))}")
    for recipe in select(rung_recipes(request.rung), request.nets, request.arms):
        recipe.accumulated(request.accumulate)
    return profile_for(request.platform, request.lowerer, request.rung)


def parse_seeds(text: str) -> tuple[int, ...]:
    """`1-3,7` -> (1, 2, 3, 7). Raises LadderError for anything else, and for a seed given twice."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise LadderError(f"--seeds '{text}': '{part}' is no seed or range; write e.g. 1-5 or 1,2,9")
        low, high = int(first), int(last or first)
        if low > high or high - low >= 10_000:
            raise LadderError(f"--seeds '{text}': the range {part} is empty or longer than 10,000")
        seeds += range(low, high + 1)
    return check_seeds(seeds)


def check_seeds(seeds: list[int] | tuple[int, ...]) -> tuple[int, ...]:
    """The seeds, when there is one at least and none twice: a seed given twice would count one result twice."""
    if not seeds:
        raise LadderError("no seed was given", "--seeds 1-5")
    if twice := sorted({s for s in seeds if list(seeds).count(s) > 1}):
        raise LadderError(f"seed {twice[0]} is given twice; each seed may count once")
    if bad := [s for s in seeds if s < 0]:
        raise LadderError(f"seed {bad[0]} is negative")
    return tuple(seeds)


def profile_for(platform: str, lowerer: str | None, rung: str = "") -> profiles.Profile:
    """The profile of a platform through a lowerer: `cpu` through `iree` is `iree-cpu`, the one for the same device.

    Raises LadderError for an unknown or contradictory pair, NotApplicable for a rung that the profile says cannot run
    there.
    """
    profile = _profile_of(platform, lowerer)
    if reason := profile.not_applicable.get(rung):
        raise NotApplicable(f"{rung} is n/a on platform {profile.name}: {reason}")
    return profile


def _profile_of(platform: str, lowerer: str | None) -> profiles.Profile:
    try:
        profile = profiles.load(platform)
        if lowerer in (None, profile.lowerer):
            return profile
        if lowerer not in LOWERERS:
            raise LadderError(f"there is no lowerer '{lowerer}'; the lowerers are: {', '.join(LOWERERS)}")
        same_device = [p for p in map(profiles.load, profiles.names()) if p.device == profile.device]
    except profiles.UnknownProfile as error:
        raise LadderError(str(error)) from None
    found = [p for p in same_device if p.lowerer == lowerer]
    if profile.lowerer != LOWERERS[0] or not found:
        others = ", ".join(p.name for p in found) or "none"
        raise LadderError(
            f"platform '{platform}' is lowerer {profile.lowerer}'s; its device through {lowerer} is platform: {others}",
            "leave --lowerer out, or name one of them with --platform",
        )
    return found[0]
