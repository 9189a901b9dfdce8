"""Who may import whom, at run time: what a process of each kind has loaded when it starts."""

import subprocess
import sys

import pytest

TRACERS = ("jax", "jaxlib", "flax", "optax", "tensorflow")


def loaded(statement: str, names: tuple[str, ...]) -> list[str]:
    """Which of these packages a fresh interpreter has after the statement."""
    code = f"{statement}\nimport sys\nprint([n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("module", ["ladder.run", "ladder.cli", "ladder.verdict", "ladder.store", "flows.cli"])
def test_the_library_and_the_command_never_load_jax(module: str) -> None:
    assert loaded(f"import {module}", TRACERS) == []


def test_the_flows_never_load_jax() -> None:
    assert loaded("import flows.rungs, flows.climb", TRACERS) == []


def test_the_command_loads_prefect_only_when_it_is_called() -> None:
    assert loaded("import flows.cli", ("prefect", "sqlalchemy", "numpy")) == []


def test_the_worker_never_loads_what_traces() -> None:
    worker = "import ladder.pool.worker, ladder.pool.trials, ladder.lowerers.xla, ladder.lowerers.faulty"
    assert loaded(worker, ("flax", "optax", "prefect", "tensorflow", "sqlalchemy")) == []


def test_platforms_diagnose_a_broken_jax_so_they_load_nothing_of_ours() -> None:
    modules = "platforms.profile, platforms.manifest, platforms.doctor, platforms.probe, platforms.stack"
    assert loaded(f"import {modules}", (*TRACERS, "iree", "numpy", "ladder", "flows")) == []


def test_this_test_would_see_jax() -> None:
    assert loaded("import jax", TRACERS) == ["jax", "jaxlib"]
