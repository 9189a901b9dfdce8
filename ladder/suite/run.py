"""A run of the suite: from a request to a record and its word. The flow and the CLI are thin over this."""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ladder import paths, records, store
from ladder.errors import LadderError
from ladder.pool.slot import Slot
from ladder.records import ResultRow
from ladder.request import profile_for
from ladder.suite import expectations, faults
from ladder.suite.case import Case, Side
from ladder.suite.expectations import RED, Expectation
from ladder.suite.report import report_markdown
from ladder.suite.runner import Result, collect, run_cases
from ladder.suite.tiers import MODULES
from ladder.verdict import Word, exit_code
from platforms import detect
from platforms import manifest as halves
from platforms.probing import SMALL, virtual_devices
from platforms.profile import Profile

Say = Callable[[str], None]
RUNG = "suite"
ALL = tuple(MODULES)
VIRTUAL_FLAG = "--xla_force_host_platform_device_count"


@dataclass(frozen=True)
class SuiteRequest:
    """What a user asked for. `only`: names of tests, all if empty; `devices`: how many, those there are if None.

    `deadline` is the unix time after which no module of tests is started.
    """

    tiers: tuple[int, ...] = ALL
    only: tuple[str, ...] = ()
    platform: str = "cpu"
    lowerer: str | None = None
    devices: int | None = None
    wait_s: float = 0.0
    deadline: float | None = None


@dataclass(frozen=True)
class SuiteOutcome:
    """How a suite run ended."""

    word: Word
    results: tuple[ResultRow, ...]
    diff: str  # of the expectation files, "" when all was as expected
    record_path: Path
    exit_code: int


@dataclass(frozen=True)
class Plan:
    """What a request would run, and where."""

    profile: Profile
    side: Side
    modules: Mapping[str, tuple[Case, ...]]
    expected: Mapping[str, Expectation]
    env: Mapping[str, str]

    @property
    def cases(self) -> tuple[Case, ...]:
        """In the order in which they run."""
        return tuple(case for cases in self.modules.values() for case in cases)


def parse_tiers(text: str) -> tuple[int, ...]:
    """`0,1` -> (0, 1); "" is all of them. Raises LadderError for anything else."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if bad := [part for part in parts if part not in map(str, ALL)]:
        raise LadderError(f"--tier '{text}': there is no tier {bad[0]}; the tiers are: {', '.join(map(str, ALL))}")
    return tuple(sorted({int(part) for part in parts})) or ALL


def plan(request: SuiteRequest) -> Plan:
    """What would run; starts nothing but the vendor's tool. Raises LadderError for a wrong request or missing tests."""
    profile = profile_for(request.platform, request.lowerer, RUNG)
    if request.devices is not None and request.devices < 1:
        raise LadderError(f"--devices {request.devices}: at least 1")
    host = profile.detect.everywhere
    env = {k: v for k, v in {**os.environ, **SMALL, **profile.environment}.items() if k != faults.VARIABLE}
    names = [] if host else [device.name for device in detect.detect(profile, detect.ask_all([profile])).devices]
    if host and request.devices is not None:
        flags = [flag for flag in env.get("XLA_FLAGS", "").split() if not flag.startswith(VIRTUAL_FLAG)]
        env["XLA_FLAGS"] = " ".join([*flags, f"{VIRTUAL_FLAG}={request.devices}"])
    virtual = virtual_devices(env)
    count = request.devices or virtual or len(names) or 1
    side = Side(
        platform=profile.name,
        lowerer=profile.lowerer,
        jax_platform=profile.jax_platform,
        devices=count,
        virtual=virtual > 0,
        accelerator=not host,
        precision=profile.precision,
    )
    every = collect(side, request.tiers)
    chosen = {module: _only(cases, request.only) for module, cases in every.items()}
    known = {case.name for cases in every.values() for case in cases}
    if unknown := [name for name in request.only if name not in known]:
        raise LadderError(f"--only '{unknown[0]}': there is no such test in tiers {request.tiers}", PLAN)
    expected = expectations.load(profile.name, names)
    if request.tiers == ALL and (stray := expectations.unknown(expected, known)):
        raise LadderError(f"{stray[0].file} lists '{stray[0].test}', which is no test of the suite", PLAN)
    return Plan(profile, side, {m: cases for m, cases in chosen.items() if cases}, expected, env)


PLAN = "ladder run suite --plan"
LATE = "not run: the budget was over"


def _only(cases: Sequence[Case], names: Sequence[str]) -> tuple[Case, ...]:
    return tuple(case for case in cases if not names or case.name in names)


def drive(request: SuiteRequest, say: Say, look: Callable[[], None] = lambda: None) -> SuiteOutcome:
    """Run the suite to its record. `look` is called twice a second and may raise, which ends everything started here.

    A run that is left so stays in `runs/.partial/` as interrupted; it is not resumed, since it takes minutes. Raises
    LadderError before anything is recorded for a wrong request, a busy device or missing tests.
    """
    planned = plan(request)
    holder = {"run": f"suite on {paths.box()}"}
    with (
        store.open() as index,
        Slot.acquire(f"{planned.profile.device}-0", holder, request.wait_s, say),
    ):
        writer = records.Writer.create(paths.runs(), _manifest(request, planned))
        try:
            index.begin_run(writer.manifest)
            say(f"run {writer.manifest['name']}: {len(planned.cases)} tests on {planned.side.devices} devices")
            outcome = _finish(writer, planned, _execute(writer, planned, request.deadline, say, look))
        finally:
            writer.close()
        try:
            index.import_record(outcome.record_path)
        except LadderError as error:
            say(f"not indexed, the record holds it: {error.message}; later: ladder import runs/")
    return outcome


def _execute(
    writer: records.Writer, planned: Plan, deadline: float | None, say: Say, look: Callable[[], None]
) -> list[ResultRow]:
    rows: list[ResultRow] = []
    for module, cases in planned.modules.items():
        late = deadline is not None and time.time() > deadline
        skipped = dict.fromkeys(cases, LATE) if late else _skipped(planned, cases)
        for case, reason in skipped.items():
            rows.append(_record(writer, planned, Result(case, "skip", None, None, 0.0, reason), say))
        run = [case for case in cases if case not in skipped]
        noted = lambda facts: _note(writer, facts)  # noqa: E731
        for result in run_cases(module, run, planned.side, planned.env, noted, look):
            rows.append(_record(writer, planned, result, say))
    return rows


def _skipped(planned: Plan, cases: Sequence[Case]) -> dict[Case, str]:
    """The cases that the expectation file says not to run, and why."""
    lines = {case: planned.expected[case.name] for case in cases if case.name in planned.expected}
    return {case: line.reason for case, line in lines.items() if line.state == "skip"}


def _record(writer: records.Writer, planned: Plan, result: Result, say: Say) -> ResultRow:
    expected = planned.expected.get(result.case.name)
    state = expectations.state_of(result, expected)
    why = f" (expected {expected.state}: {expected.reason})" if expected and state != "skip" else ""
    row = ResultRow(
        test=result.case.name,
        tier=result.case.tier,
        status=state,
        measured=result.measured,
        bound=result.bound,
        seconds=round(result.seconds, 3),
        detail=records.without_paths(result.detail + why),
    )
    writer.result(row)
    told = f"{row.measured:.3g} <= {row.bound:.3g} " if row.measured is not None and row.bound is not None else ""
    say(f"{row.test}: {row.status} {told}{row.detail}".rstrip())
    return row


def _note(writer: records.Writer, facts: Mapping[str, Any]) -> None:
    """The devices that there are, as a record of any rung names them."""
    if names := facts.get("devices"):
        writer.update(devices=[{"device": name} for name in names])


def word_of(rows: Sequence[ResultRow]) -> Word:
    """One red test makes the run fail; without a test that ran, or with one that time did not allow, no pass."""
    if not rows or any(row.status in RED for row in rows):
        return Word.FAIL
    whole = any(row.status != "skip" for row in rows) and not any(row.detail == LATE for row in rows)
    return Word.PASS if whole else Word.NOT_RUN


def _finish(writer: records.Writer, planned: Plan, rows: list[ResultRow]) -> SuiteOutcome:
    lost = {case.name for case in planned.cases} - {row.test for row in rows}
    assert not lost, f"tests without a line: {lost}"
    word = word_of(rows)
    states = {row.test: row.status for row in rows}
    details = {row.test: row.detail for row in rows}
    diff = expectations.diff(states, planned.expected, details, planned.profile.name)
    writer.update(finished=_now(), word=str(word), verdicts=[], expectations_diff=diff)
    path = writer.complete(report_markdown(records.read(writer.path)))
    return SuiteOutcome(word, tuple(rows), diff, path, exit_code(word))


def _manifest(request: SuiteRequest, planned: Plan) -> dict[str, Any]:
    side = planned.side
    return {
        "uuid": str(uuid.uuid4()),
        "rung": RUNG,
        "box": paths.box(),
        "profile": planned.profile.name,
        "lowerer": planned.profile.lowerer,
        "fault": None,
        "state": "partial",
        "started": _now(),
        "request": {"seeds": [], **{k: v for k, v in asdict(request).items() if k not in ("wait_s", "deadline")}},
        "recipes": [],
        "programs": {},
        "references": {},
        "data": {"name": "none", "identity": "none"},
        "core": halves.core(Path(__file__).resolve().parents[2]),
        "platform": halves.box(planned.profile),
        "devices": [],
        "device_count": side.devices,
        "virtual_devices": side.devices if side.virtual else 0,
        "expectations": {test: line.line for test, line in planned.expected.items()},
    }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
