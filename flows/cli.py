"""The console script: the library's commands, and `run`, `climb`, `up`, which import Prefect when they are called."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from ladder.cli import app, run_app
from ladder.cli.app import Json
from ladder.cli.output import print_json, print_table
from ladder.errors import LadderError

if TYPE_CHECKING:
    from flows.command import Ended
    from ladder.train.batches import Feed

NoServer = Annotated[bool, Parameter(name="--no-server", negative="", help="Without Prefect: it is seen here only.")]
SUITE, SEEDS = "suite", "1-3"
Seeds = Annotated[str, Parameter(help="Seeds, e.g. 1-5 or 1,2,9.")]


def say(line: str) -> None:
    """A line about what is going on; results go to standard output, this does not."""
    print(line, file=sys.stderr, flush=True)


@app.command
def run(
    rung: str,
    /,
    *,
    nets: str = "",
    arms: str = "",
    seeds: Seeds = SEEDS,
    platform: str = "cpu",
    lowerer: str = "",
    data_dir: str = "",
    epochs: int | None = None,
    reference: str = "",
    fault: str = "",
    fresh: bool = False,
    feed: str = "auto",
    accumulate: int = 1,
    tier: str = "",
    only: str = "",
    devices: int | None = None,
    plan: Annotated[bool, Parameter(negative="")] = False,
    wait: float = 0.0,
    no_server: NoServer = False,
    as_json: Json = False,
) -> int:
    """Train a rung on this box and hold the finals against the reference; or run the suite, which trains nothing.

    Args:
        rung: Which rung, e.g. mnist; or suite.
        nets: Only these nets, separated by commas.
        arms: Only these arms of them.
        platform: What to run on.
        lowerer: What turns the programs into something that runs; the platform's own if not given.
        data_dir: A folder with the original files of the dataset.
        epochs: Fewer or more than the recipe has; no reference fits then.
        reference: The reference to compare with, if not the recipe's own.
        fault: A fault to inject, to see its detector go red.
        fresh: Leave an interrupted run of the same request as it is, and start anew.
        feed: resident keeps the images on the device, streamed sends each batch; auto does what its memory allows.
        accumulate: Cut every batch into so many parts, for a device that cannot hold it whole.
        tier: Of the suite: only these tiers, e.g. 0,1.
        only: Of the suite: only these tests, separated by commas.
        devices: Of the suite: on how many devices; on a CPU they are virtual and count for no hardware.
        plan: Of the suite: the tests that would run; runs none.
        wait: Seconds to wait for a device that another run uses.
    """
    from flows.command import Ended, run_rung
    from ladder.request import Request, parse_seeds

    training = {"nets": nets, "arms": arms, "seeds": seeds != SEEDS, "data-dir": data_dir, "epochs": epochs}
    training |= {"reference": reference, "fault": fault, "fresh": fresh}
    training |= {"feed": feed != "auto", "accumulate": accumulate != 1}
    testing = {"tier": tier, "only": only, "devices": devices, "plan": plan}
    for option, value in (training if rung == SUITE else testing).items():
        if value:
            raise LadderError(f"--{option} is not for rung {rung}", "ladder run --help")
    if rung == SUITE:
        return _suite(tier, only, devices, platform, lowerer, wait, plan, no_server, as_json)
    request = Request(
        rung=rung,
        nets=split(nets),
        arms=split(arms),
        seeds=parse_seeds(seeds),
        platform=platform,
        lowerer=lowerer or None,
        data_dir=absolute(data_dir),
        epochs=epochs,
        fault=fault or None,
        reference=reference or None,
        fresh=fresh,
        wait_s=wait,
        feed=cast("Feed", feed),
        accumulate=accumulate,
    )
    return show([Ended(rung, run_rung(request, no_server, say))], as_json)


def _suite(
    tier: str,
    only: str,
    devices: int | None,
    platform: str,
    lowerer: str,
    wait: float,
    plan: bool,
    no_server: bool,
    as_json: bool,
) -> int:
    """`ladder run suite`, from its options to its exit code."""
    from flows.command import Ended, run_suite
    from ladder.suite import run as suite

    request = suite.SuiteRequest(
        tiers=suite.parse_tiers(tier),
        only=split(only),
        platform=platform,
        lowerer=lowerer or None,
        devices=devices,
        wait_s=wait,
    )
    if not plan:
        return show([Ended(SUITE, run_suite(request, no_server, say))], as_json)
    planned = suite.plan(request)
    rows = [
        {"test": c.name, "tier": str(c.tier), "family": c.family, "limit s": f"{c.limit_s:g}"} for c in planned.cases
    ]
    if as_json:
        print_json({"platform": planned.profile.name, "devices": planned.side.devices, "tests": rows})
        return 0
    print_table(rows)
    virtual = ", virtual" if planned.side.virtual else ""
    print(f"{len(rows)} tests on {planned.profile.name}, {planned.side.devices} devices{virtual}; none was run")
    return 0


@app.command
def climb(
    *,
    to: str = "",
    seeds: int = 3,
    budget: float = 8.0,
    platform: str = "cpu",
    lowerer: str = "",
    data_dir: str = "",
    past_suite: Annotated[bool, Parameter(negative="")] = False,
    no_server: NoServer = False,
    as_json: Json = False,
) -> int:
    """Climb the ladder: the suite, then the rungs in order, until one fails, diverges, crashes or hangs.

    Args:
        to: The last rung; cifar, or the last there is below it, if not given.
        seeds: How many seeds of every rung, from 1 on.
        budget: Hours; a trial that cannot finish within them is not started.
        platform: What to run on.
        lowerer: What turns the programs into something that runs; the platform's own if not given.
        data_dir: A folder with the original files of the datasets. A rung that it has none for is not run.
        past_suite: Go on after a red suite.
    """
    from flows.command import climb_rungs

    folder = absolute(data_dir)
    return show(climb_rungs(to, seeds, budget, platform, lowerer or None, folder, past_suite, no_server, say), as_json)


@app.command
def up(
    *,
    nightly: str = "",
    to: str = "",
    budget: float = 8.0,
    timezone: str = "",
    platform: str = "cpu",
    host: str = "127.0.0.1",
    port: int = 4200,
) -> int:
    """Bring this box up in Prefect and keep it up: a server if none is configured, the deployments, a worker.

    Args:
        nightly: HH:MM, when this box climbs by itself every night; off ends it; what was set stays if not given.
        to: The last rung of the nightly climb; cifar, or the last there is below it, if not given.
        budget: Hours of the nightly climb.
        timezone: Of the nightly, e.g. Europe/Berlin; this box's own if not given.
        platform: What the form offers first, and what the nightly climb runs on.
        host: Where the server listens.
        port: And on which port.
    """
    from flows.climbing import last_rung
    from flows.nightly import Nightly, is_zone, local_timezone
    from flows.up import up as bring_up

    zone = timezone or local_timezone()
    if not is_zone(zone):
        raise LadderError(f"--timezone '{zone}' is no time zone that this box knows", "--timezone Europe/Berlin")
    wanted = None if nightly in ("", "off") else Nightly.parse(nightly, zone, last_rung(to), budget)
    if wanted and (warning := wanted.warning()):
        say(f"warning: {warning}")
    return bring_up(platform, wanted, not nightly, host, port, say)


def absolute(folder: str) -> str | None:
    """A folder as a worker of another working directory finds it; None if none is given."""
    return os.path.abspath(folder) if folder else None


def split(text: str) -> tuple[str, ...]:
    """`a,b` -> (a, b)."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def show(ended: "Sequence[Ended]", as_json: bool) -> int:
    """Print how the rungs ended, for people or as JSON; the exit code is the worst of theirs."""
    if as_json:
        print_json([e.to_json() for e in ended])
    for e in () if as_json else ended:
        print_table(e.table(), e.columns, title=e.rung)
        for line in e.lines():
            print(line)
    codes = {e.outcome.exit_code for e in ended}
    return next((code for code in (1, 2, 3) if code in codes), 0)


def main() -> None:
    """The `ladder` command."""
    code = run_app(app, sys.argv[1:])
    link = sys.modules.get("flows.link")
    if link and link.is_lost() and "PREFECT_API_URL" in os.environ:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # all is recorded and said; Prefect's threads would go on knocking for 20 s
    sys.exit(code)


if __name__ == "__main__":
    main()
