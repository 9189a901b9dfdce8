"""What a box offers in the UI: a deployment per rung and `climb`, on a work pool of its own."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.workers.process import ProcessWorker

from flows.climb import climb
from flows.nightly import Nightly
from flows.rungs import RUNG_FLOWS
from ladder import paths

NIGHTLY = "nightly"  # the schedule's slug: `ladder up` changes its own schedule only
A_DAY_S = 86_400.0  # how long a run from the UI waits for a device that a command line uses


def register(platform: str, nightly: Nightly | None, keep_nightly: bool) -> str:
    """Register this box's work pool and deployments, as often as one likes; returns a line on the nightly.

    Raises PrefectHTTPStatusError and httpx errors when the server refuses or is gone.
    """
    box = paths.box()
    with get_client(sync_client=True) as client:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name=box, type="process", base_job_template=template), overwrite=True)
    for rung, flow in RUNG_FLOWS.items():
        one = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
        parameters = {"platform": platform, "wait_s": A_DAY_S}
        _deployment(flow, f"flows.rungs.{rung}", one, parameters, [f"rung:{rung}"]).apply(work_pool_name=box)
    one = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
    _deployment(climb, "flows.climb.climb", one, {"platform": platform}, ["climb"]).apply(work_pool_name=box)
    return _schedule(f"climb/{box}", nightly, keep_nightly)


def _deployment(
    flow: Flow[..., Any], entrypoint: str, limit: ConcurrencyLimitConfig, parameters: dict[str, Any], tags: list[str]
) -> RunnerDeployment:
    """One deployment: found by module, run in the folder that holds the packages, by the worker's own interpreter."""
    made = flow.to_deployment(
        name=paths.box(),
        work_pool_name=paths.box(),
        parameters=parameters,
        tags=[*tags, f"box:{paths.box()}"],
        concurrency_limit=limit,
        enforce_parameter_schema=True,
        job_variables={"working_dir": str(Path(__file__).resolve().parents[1])},
        description=flow.description,
    )
    assert isinstance(made, RunnerDeployment)
    made.entrypoint = entrypoint
    return made


def _schedule(deployment: str, nightly: Nightly | None, keep: bool) -> str:
    """Replace the deployment's nightly schedule, or leave it (`keep`); schedules made in the UI stay."""
    with get_client(sync_client=True) as client:
        found = client.read_deployment_by_name(deployment)
        ours = [s for s in found.schedules if s.slug == NIGHTLY]
        if keep and nightly is None:
            kept = [s.schedule for s in ours if isinstance(s.schedule, CronSchedule)]
            return f"kept: cron {kept[0].cron} {kept[0].timezone} (--nightly off ends it)" if kept else "none"
        for schedule in ours:
            client.delete_deployment_schedule(found.id, schedule.id)
        if nightly is None:
            return "none"
        cron = CronSchedule(cron=nightly.cron, timezone=nightly.timezone)
        new = DeploymentScheduleCreate(schedule=cron, active=True, slug=NIGHTLY, parameters=nightly.parameters)
        client.create_deployment_schedules(found.id, [new])
        return nightly.line(datetime.now(ZoneInfo(nightly.timezone)))
