"""Only ids cross Prefect: tasks find here the run that their flow opened, and callers find how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flows.artifacts import Progress
from flows.link import Link
from ladder.errors import LadderError
from ladder.pool.events import Event
from ladder.records import FinalRow
from ladder.run import Outcome, Run
from ladder.suite.run import SuiteOutcome


class Cancelled(LadderError):
    """The flow run was cancelled from the UI."""

    exit_code = 3


@dataclass
class Desk:
    """A run under way and those who want to hear of it."""

    run: Run
    link: Link
    progress: Progress
    errors: dict[str, BaseException] = field(default_factory=dict[str, BaseException])  # by trial

    def execute(self, trial: str, say: Callable[[str], None]) -> FinalRow:
        """Run a trial to its recorded line, its events to the log and the progress. From any thread."""

        def hear(event: Event) -> None:
            self.progress.note(event)
            if line := event.line():
                say(line)

        try:
            return self.run.execute(trial, hear)
        except BaseException as error:
            self.errors[trial] = error
            raise


DESKS: dict[str, Desk] = {}  # by run uuid, while the flow runs
ENDED: list[
    Outcome | SuiteOutcome | LadderError
] = []  # of this process's rung flows, in order: told without the server
