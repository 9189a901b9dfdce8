"""What a flow run tells Prefect about its run. Any of it may fail; the run and its record do not depend on it."""

import contextlib
import logging
import os
import time
from collections.abc import Callable
from typing import Self
from uuid import UUID

from prefect import get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import FailedRun
from prefect.logging.handlers import APILogHandler
from prefect.runtime import flow_run
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, get_current_settings, temporary_settings
from prefect.types import KeyValueLabelsField

from flows import server
from flows.alive import identity
from ladder import paths

OWNER = "ladder.owner"  # label: the process that makes the run, for the reaper
ASK_S = 3.0
RETURN_S = 60.0
_nested: list[UUID] = []  # this process's flow runs, outermost first: whoever cancels `climb` cancels its rung


_given_up = contextlib.ExitStack()  # settings of a process that has lost its server


class _Told(logging.Filter):
    """What Prefect's engine logs tracebacks about though it is told already: a verdict, and a lost server."""

    lost = False

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        record.exc_info = (
            record.exc_info if error else None
        )  # a task that returns Failed is logged with "NoneType: None"
        return error is None or not (self.lost or isinstance(error, FailedRun))


_told = _Told()
logging.getLogger("prefect.flow_runs").addFilter(_told)
logging.getLogger("prefect.task_runs").addFilter(_told)


def is_lost() -> bool:
    """Whether a flow of this process lost its server."""
    return _told.lost


def quietly() -> Callable[[str], None]:
    """This flow's or task's log, from any thread; it never raises, so that a broken terminal stops no device worker."""
    logger = get_run_logger()

    def say(line: str) -> None:
        with contextlib.suppress(Exception, SystemExit):  # rich answers a closed pipe with SystemExit
            logger.info("%s", line)

    return say


class Link:
    """One flow run's connection. After the first failed call it is silent, having said so once."""

    def __init__(self) -> None:
        self.flow_run = UUID(str(flow_run.get_id()))
        self.online = True
        self._say = quietly()
        self._tags = [str(tag) for tag in flow_run.get_tags() or []]
        self._asked = time.monotonic()
        _nested.append(self.flow_run)
        logging.getLogger("prefect.events.clients").setLevel(logging.CRITICAL)
        self._worker = os.getppid() if "PREFECT__FLOW_RUN_ID" in os.environ else None  # Prefect's worker started us

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _nested.remove(self.flow_run)
        if not self.online:  # the engine tells the final state once, not for 14 s and then again
            _given_up.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))

    def say(self, line: str) -> None:
        """A line in the run's log. From any thread; never raises, so that a broken terminal stops no device worker."""
        self._say(line)

    def call(self, what: Callable[[SyncPrefectClient], object]) -> None:
        """Tell the server something."""

        def tell() -> None:
            with get_client(sync_client=True) as client:
                what(client)

        self.attempt(tell)

    def attempt[T](self, what: Callable[[], T]) -> T | None:
        """The result of a call that needs the server; None, and no call, once it was lost."""
        if not self.online:
            return None
        try:
            return what()
        except Exception as error:
            self.lose(error)
            return None

    def lose(self, error: BaseException | None) -> None:
        """Go on without Prefect, saying so once."""
        if not self.online:
            return
        self.online, _told.lost = False, True
        for logger in map(logging.getLogger, ("prefect", "prefect.flow_runs", "prefect.task_runs")):
            for handler in [h for h in logger.handlers if isinstance(h, APILogHandler)]:
                logger.removeHandler(handler)
        self.say(
            f"Prefect is lost ({error!r}): the run goes on without it; its record will be complete, its page will not"
        )

    def find_again(self) -> None:
        """Use a server that came back for what is told at the end. A worker's run waits: `ladder up` restarts it."""
        api = get_current_settings().api.url
        if self.online or not api:
            return
        deadline = time.monotonic() + (RETURN_S if self._worker is not None else 0)
        while not (back := server.answers(api)) and time.monotonic() < deadline:
            time.sleep(1)
        self.online = back

    def claim(self) -> None:
        """Write down that this process makes the flow run (see flows.reap)."""
        labels: KeyValueLabelsField = {OWNER: identity(), "ladder.box": paths.box()}
        self.call(lambda client: client.update_flow_run_labels(self.flow_run, labels))

    def describe(self, *tags: str, name: str | None = None) -> None:
        """Add tags to the flow run, and give it a name."""
        self._tags += [tag for tag in tags if tag not in self._tags]
        self.call(lambda client: client.update_flow_run(self.flow_run, name=name, tags=self._tags))

    def is_orphaned(self) -> bool:
        """Whether the worker that started this process is gone: nobody could cancel the run then."""
        return self._worker is not None and os.getppid() != self._worker

    def is_cancelled(self) -> bool:
        """Whether somebody cancelled the flow run, asked every few seconds. A worker's run is killed by its worker."""
        if self._worker is not None or time.monotonic() - self._asked < ASK_S:
            return False
        self._asked = time.monotonic()
        cancelled: list[bool] = []
        api = get_current_settings().api.url
        if api and not any(server.answers(api) for _ in range(2)):  # sooner said than by Prefect's retries
            self.lose(ConnectionError(f"{api} does not answer"))

        def ask(client: SyncPrefectClient) -> None:
            states = [client.read_flow_run(run).state for run in _nested]
            cancelled.extend(state is not None and (state.is_cancelling() or state.is_cancelled()) for state in states)

        self.call(ask)
        return any(cancelled)
