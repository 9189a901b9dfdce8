"""The body of every rung's flow: open the library's run, a Prefect task per trial, tell Prefect, finish."""

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, cast

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectConcurrentFuture
from prefect.states import Cancelled, Completed, Failed

from flows.artifacts import Progress, show_curves, show_verdicts
from flows.link import Link, quietly
from flows.live import DESKS, ENDED, Desk
from flows.live import Cancelled as CancelledFromUI
from ladder import paths, records
from ladder.errors import LadderError
from ladder.pool.pool import Cancelled as PoolCancelled
from ladder.run import Outcome, Request, Run, Trial
from ladder.verdict import Word

ENDS_WELL = (Word.PASS, Word.INCONCLUSIVE, Word.NO_REFERENCE, Word.NOT_RUN, Word.UNSUPPORTED)
LOOK_S = 1.0  # how often the flow's thread looks up from waiting: progress, cancellation


class WorkerGone(Exception):
    """The Prefect worker that started this flow is gone."""


def train(request: Request) -> State[Any]:
    """One rung, from request to record, inside a flow run. The flow's final state is named after the verdict's word."""
    with Link() as link:
        link.claim()
        try:
            with Run.open(request, link.say) as run:
                progress = Progress(link, _name(run, request), {t.id: t.recipe.epochs for t in run.trials})
                desk = DESKS[run.uuid] = Desk(run, link, progress)
                try:
                    outcome = _finish(desk, request) if _execute(desk, request) else None
                finally:
                    del DESKS[run.uuid]
        except LadderError as error:
            ENDED.append(error)
            link.say(f"refused: {error}")
            return Failed(name="refused", message=str(error))
        if outcome is None:
            message = f"run {run.name} was cancelled; the same command goes on from where it was"
            ENDED.append(CancelledFromUI(message))
            return Cancelled(message=message)
        ENDED.append(outcome)
        return final_state(outcome.word, summary(outcome))


@task(
    name="trial", task_run_name="{recipe} seed {seed}", retries=0, persist_result=False, cache_policy=NO_CACHE
)  # resuming is the library's business
def run_trial(run: str, trial: str, recipe: str, seed: int) -> State[Any]:
    """One recipe at one seed. Its state is named after the score, or after what went wrong."""
    try:
        final = DESKS[run].execute(trial, quietly())
    except PoolCancelled:
        return Cancelled(message="its last checkpoint is kept")
    if final.correct is None or final.status != "done":
        return Failed(name=final.status, message=final.note or final.status)
    return Completed(name=f"{final.correct}/{final.total}", message=final.note or None)


def final_state(word: Word, message: str) -> State[Any]:
    """Completed or Failed, named after the verdict's word, so that every list of runs shows it."""
    return Completed(name=word, message=message) if word in ENDS_WELL else Failed(name=word, message=message)


def summary(outcome: Outcome) -> str:
    """`pass (linear-sgd pass, cnn-sgd pass), record <name>`."""
    cells = ", ".join(f"{j.net}-{j.arm} {j.word}" for j in outcome.judgements)
    alarms = f"{outcome.alarms} early alarms, " if outcome.alarms else ""
    return f"{outcome.word} ({cells or 'nothing was judged'}), {alarms}record {outcome.record_path.name}"


def _name(run: Run, request: Request) -> str:
    return f"{request.rung}-{run.profile.name}"


def _execute(desk: Desk, request: Request) -> bool:
    """Run the trials, as many at once as there are device slots. False if the flow run was cancelled meanwhile."""
    run, link, progress = desk.run, desk.link, desk.progress
    facts = {"rung": request.rung, "platform": run.profile.name, "lowerer": run.profile.lowerer, "box": paths.box()}
    link.describe(*(f"{k}:{v}" for k, v in facts.items()), name=run.name)
    for trial in run.done:
        progress.finish(trial)
    waiting = [t for t in run.trials if t.id not in run.done]
    under_way: dict[Future[Any], Trial] = {}
    with ThreadPoolExecutor(run.profile.slots) as without_prefect:
        try:
            while waiting or under_way:
                while waiting and len(under_way) < run.profile.slots:
                    trial = waiting.pop(0)
                    under_way[_start(desk, trial, without_prefect)] = trial
                for future in wait(under_way, LOOK_S, FIRST_COMPLETED).done:
                    trial = under_way.pop(future)
                    if trial.id in run.done:
                        progress.finish(trial.id)
                    elif error := desk.errors.get(trial.id):
                        raise error
                    else:  # Prefect ended the task before its trial began
                        link.lose(future.exception())
                        waiting.insert(0, trial)
                progress.show()
                if link.is_cancelled():
                    run.cancel()
                    return False
                if link.is_orphaned():
                    raise WorkerGone("the Prefect worker that started this run is gone; run it again to go on")
        except BaseException:
            run.cancel()  # before anything else: whoever stopped us wants the device
            raise
    return True


def _start(desk: Desk, trial: Trial, without_prefect: ThreadPoolExecutor) -> "Future[Any]":
    """A trial as a task; when Prefect's server is lost, as a plain call."""
    run = desk.run
    submitted = desk.link.attempt(lambda: run_trial.submit(run.uuid, trial.id, trial.recipe.name, trial.seed))
    if submitted:
        return cast(PrefectConcurrentFuture[Any], submitted).wrapped_future
    return without_prefect.submit(desk.execute, trial.id, desk.link.say)


def _finish(desk: Desk, request: Request) -> Outcome:
    """Judge and record; then show what came out, on a server that may have come back."""
    outcome = desk.run.finish()
    link, name = desk.link, _name(desk.run, request)
    link.find_again()
    desk.progress.show()
    record = records.read(outcome.record_path)
    show_verdicts(link, name, outcome, record, summary(outcome))
    show_curves(link, name, record)
    link.describe(f"verdict:{outcome.word}", *(["alarm"] if outcome.alarms else []))
    link.say(summary(outcome))
    return outcome
