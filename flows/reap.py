"""Flow runs that say Running though nothing runs: their worker and their process both died, and nobody told the server.

Alive is who has a live process, however long it is silent: a compile may hold the interpreter for many minutes.
"""

from datetime import UTC, datetime, timedelta

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Crashed

from flows.alive import is_alive
from flows.link import OWNER
from ladder import paths

UNCLAIMED = timedelta(minutes=10)  # from Pending to the flow's first line; a slow box takes half a minute
CANCELLING = timedelta(minutes=1)  # the worker that killed the process tells the server within 10 s
UNFINISHED = [StateType.RUNNING, StateType.CANCELLING, StateType.PENDING]


def reap() -> list[str]:
    """Give this box's dead flow runs a final state; returns a line for each.

    Without this process knowing better, a run is left alone: another box's, and one that is being started.
    """
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                tags=FlowRunFilterTags(all_=[f"box:{paths.box()}"]),
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNFINISHED)),
            )
        )
        return [_end(client, run, why) for run in found if (why := death(run, datetime.now(UTC)))]


def death(run: FlowRun, now: datetime) -> str:
    """Why an unfinished flow run cannot be alive, or ""."""
    since = run.state.timestamp if run.state else now
    if run.state and run.state.is_cancelling() and now - since < CANCELLING:
        return ""
    if owner := run.labels.get(OWNER):
        return "" if is_alive(str(owner)) else f"its process {str(owner).split()[0]} is gone"
    return f"no process took it within {UNCLAIMED}" if now - since > UNCLAIMED else ""


def _end(client: SyncPrefectClient, run: FlowRun, why: str) -> str:
    cancelling = run.state is not None and run.state.is_cancelling()
    message = f"{why}; what it had recorded is kept, and the same request goes on from there"
    state: State[None] = Cancelled(message=message) if cancelling else Crashed(message=message)
    client.set_flow_run_state(run.id, state)
    return f"flow run {run.name} was {run.state_name} though {why}: now {state.name}"
