"""The body of the suite's flow: the library's run in this process, its lines in the log, its results as a table."""

from typing import Any

from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

from flows.artifacts import key
from flows.link import Link
from flows.live import ENDED
from flows.live import Cancelled as CancelledFromUI
from flows.train import WorkerGone, final_state
from ladder import paths
from ladder.errors import LadderError
from ladder.request import profile_for
from ladder.suite import report
from ladder.suite.run import SuiteOutcome, SuiteRequest, drive


def test(request: SuiteRequest) -> State[Any]:
    """The suite, from request to record, inside a flow run. The final state is named after the verdict's word."""
    with Link() as link:
        link.claim()

        def look() -> None:
            if link.is_cancelled():
                raise CancelledFromUI("the suite was cancelled; the same command runs it anew")
            if link.is_orphaned():
                raise WorkerGone("the Prefect worker that started this run is gone; run it again")

        try:
            profile = profile_for(request.platform, request.lowerer)
            facts = {"rung": "suite", "platform": profile.name, "lowerer": profile.lowerer, "box": paths.box()}
            link.describe(*(f"{k}:{v}" for k, v in facts.items()))
            outcome = drive(request, link.say, look)
        except CancelledFromUI as error:
            ENDED.append(error)
            return Cancelled(message=error.message)
        except LadderError as error:
            ENDED.append(error)
            link.say(f"refused: {error}")
            return Failed(name="refused", message=str(error))
        link.find_again()
        show_results(link, f"suite-{profile.name}", outcome)
        link.describe(f"verdict:{outcome.word}", name=outcome.record_path.name)
        text = summary(outcome)
        link.say(text)
        ENDED.append(outcome)
        return final_state(outcome.word, text)


def summary(outcome: SuiteOutcome) -> str:
    """`pass (22 pass, 2 skip), record <name>`."""
    return f"{outcome.word} ({report.counts(outcome.results)}), record {outcome.record_path.name}"


def show_results(link: Link, name: str, outcome: SuiteOutcome) -> None:
    """The results as a table, a row a test; above it what is red, and what to paste into the expectation file."""
    lines = [summary(outcome), "", *(f"- **{line}**" for line in report.red(outcome.results))]
    if outcome.diff:
        lines += ["", "```diff", outcome.diff, "```"]
    link.attempt(lambda: create_table_artifact(report.table(outcome.results), key("results", name), "\n".join(lines)))
