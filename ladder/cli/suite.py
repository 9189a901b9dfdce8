"""`ladder suite`: what the suite itself is made with and judged by. It is run with `ladder run suite`."""

import sys
from dataclasses import asdict

from cyclopts import App

from ladder.cli.app import Json, app
from ladder.cli.output import print_json, print_table
from ladder.errors import LadderError

suite_app = App(name="suite", help="The suite's own checks; the suite is run with `ladder run suite`.")
app.command(suite_app)


@suite_app.command
def goldens(*, check: bool = False, only: str = "", as_json: Json = False) -> int:
    """Make the nets' golden summaries: one step of each in float64 on the CPU.

    Args:
        check: Write nothing; say which committed ones are stale, and exit 1 if there are any.
        only: Only these nets, separated by commas.
    """
    from ladder.suite.nets import goldens
    from ladder.suite.nets.cases import FAMILIES

    nets = [name for name in only.split(",") if name] or list(FAMILIES)
    if unknown := [name for name in nets if name not in FAMILIES]:
        raise LadderError(f"--only '{unknown[0]}': there is no such net; the nets are: {', '.join(FAMILIES)}")
    stale = goldens.remake(nets, check)
    if as_json:
        print_json([{"net": name, "stale": name in stale} for name in nets])
    if stale:
        print(f"stale goldens: {', '.join(stale)}\n  {goldens.MAKE} --only {','.join(stale)}", file=sys.stderr)
    elif not as_json:
        print(f"{len(nets)} goldens are {'fresh' if check else 'made'}")
    return 1 if stale else 0


@suite_app.command
def faults(*, only: str = "", as_json: Json = False) -> int:
    """Detection power: inject every fault of the catalogue, and see the test that has to catch it go red.

    Args:
        only: Only these faults, separated by commas.
    """
    from ladder.suite import catalogue

    rows: list[dict[str, str]] = []
    found = list[catalogue.Trial]()
    for trial in catalogue.trials(catalogue.choose([name for name in only.split(",") if name])):
        word = "caught" if trial.caught else "MISSED"
        fault = trial.fault
        rows.append(
            {"fault": fault.name, "": word, "by": fault.test or "the run", "as": trial.state, "detail": trial.detail}
        )
        found.append(trial)
        print(f"{fault.name}: {word} by {fault.test or 'the run'} as {trial.state}", file=sys.stderr, flush=True)
    missed = sum(not trial.caught for trial in found)
    if as_json:
        print_json([{**asdict(t.fault), "state": t.state, "detail": t.detail, "caught": t.caught} for t in found])
    else:
        print_table(rows)
        print(f"{len(found) - missed} of {len(found)} faults caught, {missed} missed")
    return 1 if missed else 0
