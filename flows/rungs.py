"""One flow per rung, each with the rung's own choices as typed parameters, so that the UI's form offers them."""

import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Optional, cast, get_args

from prefect import Flow, flow
from prefect.client.schemas.objects import State
from pydantic import Field

from flows import climbing
from flows.testing import test
from flows.train import train
from ladder import lowerers
from ladder.recipes import rung_recipes, select
from ladder.run import Request
from ladder.suite.run import ALL, SuiteRequest
from ladder.train import batches
from platforms import profile

PROFILES_OWN = "of the platform"  # the choice "the lowerer that the platform's profile names"


def choice(name: str, values: Iterable[str]) -> Any:
    """A type with these values: a drop-down in the UI's form."""
    return StrEnum(name, {value: value for value in dict.fromkeys(values)})


def offers[F: Callable[..., Any]](**types: Any) -> Callable[[F], F]:
    """Give parameters types that are made while the module loads; the signature says what they are in plain Python."""

    def retype(function: F) -> F:
        function.__annotations__ |= types
        return function

    return retype


def some(chosen: Sequence[str], of: Sequence[str]) -> tuple[str, ...]:
    """The chosen ones, or () when all are: the same request as a command line that names none."""
    return () if set(chosen) == set(of) else tuple(str(c) for c in chosen)


Platform = choice("Platform", profile.names())
Lowerer = choice("Lowerer", (PROFILES_OWN, *lowerers.NAMES))
Rung = choice("Rung", climbing.rungs())
Tier = choice("Tier", map(str, ALL))
Feed = choice("Feed", get_args(batches.Feed))
Seeds = Annotated[int, Field(ge=1, le=1000)]
Hours = Annotated[float, Field(gt=0, le=1000)]


def rung_flow(rung: str) -> Flow[..., State[Any]]:
    """The flow of a rung. It is the library's run in Prefect's clothes: see flows.train."""
    recipes = rung_recipes(rung)
    usual_nets = list(dict.fromkeys(r.net for r in select(recipes)))
    usual_arms = list(dict.fromkeys(r.arm for r in select(recipes)))

    @offers(
        nets=list[choice("Net", (r.net for r in recipes))],
        arms=list[choice("Arm", (r.arm for r in recipes))],
        seeds=Seeds,
        exact_seeds=list[Annotated[int, Field(ge=0)]],
        platform=Platform,
        lowerer=Lowerer,
        epochs=Optional[Annotated[int, Field(ge=1)]],  # noqa: UP045  not `|`: this is a value, not a type
        wait_s=Annotated[float, Field(ge=0)],
        budget_hours=Optional[Hours],  # noqa: UP045
        feed=Feed,
        accumulate=Annotated[int, Field(ge=1)],
    )
    def run(
        nets: list[str] = usual_nets,
        arms: list[str] = usual_arms,
        seeds: int = 3,
        exact_seeds: list[int] = [],  # noqa: B006  a form's default; never changed
        platform: str = "cpu",
        lowerer: str = PROFILES_OWN,
        epochs: int | None = None,
        data_dir: str = "",
        reference: str = "",
        fault: str = "",
        fresh: bool = False,
        wait_s: float = 0.0,
        budget_hours: float | None = None,
        feed: str = "auto",
        accumulate: int = 1,
    ) -> State[Any]:
        """Train this rung on this box and hold the finals against the reference.

        Args:
            nets: Which nets.
            arms: Which arms of them.
            seeds: How many seeds, from 1 on.
            exact_seeds: These seeds instead.
            platform: What to run on.
            lowerer: What turns the programs into something that runs.
            epochs: Fewer or more than the recipe has. No reference will fit.
            data_dir: A folder with the original files of the dataset, on this box.
            reference: The name of the reference to compare with, if not the recipe's own.
            fault: A fault to inject, to see its detector go red. The record can be neither kept nor published.
            fresh: Leave an interrupted run of the same request as it is, and start anew.
            wait_s: Seconds to wait for a device that another run uses.
            budget_hours: A trial that cannot finish within this time is not started.
            feed: Keep the images on the device, or stream them to it; auto does what its memory allows.
            accumulate: Cut every batch into so many parts, for a device that cannot hold it whole.
        """
        return train(
            Request(
                rung=rung,
                nets=some(nets, of=usual_nets),
                arms=some(arms, of=usual_arms),
                seeds=tuple(exact_seeds) or tuple(range(1, seeds + 1)),
                platform=str(platform),
                lowerer=None if lowerer == PROFILES_OWN else str(lowerer),
                data_dir=data_dir or None,
                epochs=epochs,
                fault=fault or None,
                reference=reference or None,
                fresh=fresh,
                wait_s=wait_s,
                deadline=None if budget_hours is None else time.time() + 3600 * budget_hours,
                feed=cast(batches.Feed, str(feed)),
                accumulate=accumulate,
            )
        )

    run.__name__ = run.__qualname__ = rung
    return flow(name=rung, persist_result=False, retries=0)(run)


@flow(name="suite", persist_result=False, retries=0)
@offers(
    tiers=list[Tier],
    platform=Platform,
    lowerer=Lowerer,
    devices=Optional[Annotated[int, Field(ge=1)]],  # noqa: UP045  not `|`: this is a value, not a type
    wait_s=Annotated[float, Field(ge=0)],
    budget_hours=Optional[Hours],  # noqa: UP045
)
def suite(
    tiers: list[str] = [str(tier) for tier in ALL],  # noqa: B006  a form's default; never changed
    only: list[str] = [],  # noqa: B006
    platform: str = "cpu",
    lowerer: str = PROFILES_OWN,
    devices: int | None = None,
    wait_s: float = 0.0,
    budget_hours: float | None = None,
) -> State[Any]:
    """Test this box layer by layer: platform, runtime, operators, nets. Minutes, no dataset; it trains nothing.

    Args:
        tiers: Which tiers: 0 platform, 1 runtime, 2 operators and nets.
        only: Only these tests.
        platform: What to run on.
        lowerer: What turns the programs into something that runs.
        devices: On how many devices. On a CPU more than one are virtual, and count for no hardware.
        wait_s: Seconds to wait for a device that another run uses.
        budget_hours: A part of the suite that is not begun within this time is not run.
    """
    return test(
        SuiteRequest(
            tiers=tuple(int(tier) for tier in tiers),
            only=tuple(only),
            platform=str(platform),
            lowerer=None if lowerer == PROFILES_OWN else str(lowerer),
            devices=devices,
            wait_s=wait_s,
            deadline=None if budget_hours is None else time.time() + 3600 * budget_hours,
        )
    )


mnist = rung_flow("mnist")
cifar = rung_flow("cifar")
imagenette = rung_flow("imagenette")

# A deployment's entrypoint is `flows.rungs.<rung>`.
RUNG_FLOWS: dict[str, Flow[..., State[Any]]] = {
    "suite": suite,
    "mnist": mnist,
    "cifar": cifar,
    "imagenette": imagenette,
}
