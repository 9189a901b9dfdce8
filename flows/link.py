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
from prefect.runtime import flow_run
from prefect.settings import get_current_settings
from prefect.types import KeyValueLabelsField

from flows import server
from flows.alive import identity
from ladder import paths

OWNER = "ladder.owner"  # label: the process that makes the run, for the reaper
ASK_S = 3.0
_nested: list[UUID] = []  # this process's flow runs, outermost first: whoever cancels `climb` cancels its rung


class _Told(logging.Filter):
    """Prefect's engine logs a traceback of itself when a flow returns Failed; our verdict is not an accident."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], FailedRun))


logging.getLogger("prefect.flow_runs").addFilter(_Told())


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
        self._worker = os.getppid() if "PREFECT__FLOW_RUN_ID" in os.environ else None  # Prefect's worker started us

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _nested.remove(self.flow_run)

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
        self.online = False
        for name in ("prefect.events.clients", "prefect._internal.concurrency", "prefect.events.worker"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # each lost event would print a traceback
        self.say(
            f"Prefect is lost ({error!r}): the run goes on without it; its record will be complete, its page will not"
        )

    def find_again(self) -> None:
        """Use a server that came back, for what is told at the end."""
        api = get_current_settings().api.url
        self.online = self.online or bool(api and server.answers(api))

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

        def ask(client: SyncPrefectClient) -> None:
            states = [client.read_flow_run(run).state for run in _nested]
            cancelled.extend(state is not None and (state.is_cancelling() or state.is_cancelled()) for state in states)

        self.call(ask)
        return any(cancelled)
