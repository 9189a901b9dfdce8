"""Ties for real: each side in a child of its own, on the recipes' own shapes and the embedded images."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ladder import paths
from ladder.cli import app, run_app
from ladder.data import open_split, prepare
from ladder.errors import LadderError
from ladder.recipes import Recipe
from ladder.recipes.mnist import MNIST5K, recipes
from ladder.ties import bounds
from ladder.ties.gates import lines, measure
from ladder.ties.side import JUDGE, UPDATES, Job, Refused, Side, Trace, run
from ladder.ties.tie import Which, recipe_named, resolve, synthetic, tie
from ladder.train import artifact
from ladder.train.artifact import Program, program_for

CPU = Side("cpu", "xla", "cpu", {"JAX_PLATFORMS": "cpu"})
# Which lines a fault turns red, in 5 steps; docs/ties.md prints this table.
LAST = {"linear": "fc1/w", "mlp": "fc3/w", "cnn": "fc3/w"}
RED: dict[str, set[str]] = {
    "ulp": set(),
    "scaled-gradient=1.01": {"G2 update"},
    "stale": {"G2 update"},
    "swapped": {"G2 update"},
    "tf32": {"G1 example", "G2 update"},
    "bf16": {"G1 example", "G1 loss", "G2 update"},
    "bf16-state": {"G2 update"},
    "nan=3": {"G2 control", "G2 update", "G2 curve"},
}
Tied = Callable[[str], tuple[Recipe, Program, Path, Trace, dict[str, Trace]]]


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Tied:
    """tied(net): its recipe, program, data, the judge's trace, and by fault the traces of a side ("" is healthy)."""
    root = tmp_path_factory.mktemp("tied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LADDER_CACHE", str(shared_cache))
        data = prepare("mnist5k", data_dir=None, cache=root, say=lambda _: None).folder

    @cache
    def get(net: str) -> tuple[Recipe, Program, Path, Trace, dict[str, Trace]]:
        recipe = next(r for r in recipes(MNIST5K) if r.net == net)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LADDER_CACHE", str(shared_cache))
            program, _ = program_for(recipe, "cpu")
            judge = run(JUDGE, program, recipe, data, [Job("judge", 1, UPDATES, control=False)], root / net)["judge"]
            faults = {f: f"{f}={LAST[net]}" if f in ("stale", "swapped") else f for f in ("", *RED)}
            jobs = [Job(f"side{i}", 1, UPDATES, f or None, str(judge.file)) for i, f in enumerate(faults.values())]
            traces = run(CPU, program, recipe, data, jobs, root / net)
        return recipe, program, data, judge, dict(zip(faults, traces.values(), strict=True))

    return get


def red(tied: Tied, net: str, fault: str) -> set[str]:
    recipe, program, _, judge, traces = tied(net)
    measured = measure(traces[""], traces[fault], judge)
    found = lines(measured, bounds.load(), recipe.dtype, bounds.family(program))
    return {f"{line.gate} {line.metric}" for line in found if not line.passed}


NETS = ["linear", "mlp", pytest.param("cnn", marks=pytest.mark.slow)]


@pytest.mark.parametrize("net", NETS)
def test_a_healthy_side_is_within_every_bound_and_the_same_twice(tied: Tied, net: str) -> None:
    assert red(tied, net, "") == set()
    assert tied(net)[4][""].again == 0


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("fault", RED)
def test_a_fault_turns_its_gates_red(tied: Tied, net: str, fault: str) -> None:
    assert red(tied, net, fault) >= RED[fault]
    if not RED[fault]:
        assert red(tied, net, fault) == set()


def test_the_judge_is_nearer_to_exact_than_float32_can_be(tied: Tied) -> None:
    """The first update of the linear net by hand: at zero parameters the softmax is uniform."""
    recipe, _, data, judge, _ = tied("linear")
    images, labels = open_split(data, "train")
    x = images[: recipe.batch].reshape(recipe.batch, -1) / 255.0
    wrong = 0.1 - np.eye(10)[labels[: recipe.batch]]
    update = -np.float64(np.float32(recipe.schedule.rate)) * x.T @ wrong / recipe.batch
    np.testing.assert_allclose(judge.state(1)["params/fc1/w"], update, rtol=0, atol=1e-15)


def test_a_program_that_drops_state_is_refused(tied: Tied, tmp_path: Path) -> None:
    recipe, program, data, _, _ = tied("linear")
    folder = tmp_path / "dropped"
    shutil.copytree(program.folder, folder)
    meta = json.loads((folder / "program.json").read_text())
    meta["functions"]["step"]["outputs"] = [
        a for a in meta["functions"]["step"]["outputs"] if a["name"] != "state:params/fc1/b"
    ]
    (folder / "program.json").write_text(json.dumps(meta))
    with pytest.raises(Refused, match=r"gate G4.*state:params/fc1/b is missing"):
        run(CPU, artifact.read(folder), recipe, data, [Job("a", 1, UPDATES)], tmp_path)


def test_a_side_that_aborts_is_refused_with_its_signal(tied: Tied, tmp_path: Path) -> None:
    recipe, program, data, _, _ = tied("linear")
    with pytest.raises(Refused, match="cpu was ended by signal 6"):
        run(CPU, program, recipe, data, [Job("a", 1, UPDATES, "abort=2")], tmp_path)


def test_a_side_that_hangs_is_refused_at_its_limit(tied: Tied, tmp_path: Path) -> None:
    recipe, program, data, _, _ = tied("linear")
    with pytest.raises(Refused, match="cpu did not end within 2 s"):
        run(CPU, program, recipe, data, [Job("a", 1, UPDATES, "hang=2")], tmp_path, limit_s=2)


def test_a_device_that_is_not_there_is_an_error_and_no_verdict(tied: Tied, tmp_path: Path) -> None:
    recipe, program, data, _, _ = tied("linear")
    with pytest.raises(LadderError, match="there is no lowerer 'tvm'") as caught:
        run(replace(CPU, lowerer="tvm"), program, recipe, data, [Job("a", 1, UPDATES)], tmp_path)
    assert caught.value.exit_code == 2


def test_a_fault_is_parsed_before_anything_runs(tied: Tied) -> None:
    with pytest.raises(LadderError, match="there is no fault 'gremlin'"):
        resolve(Which("cpu", fault="gremlin"), tied("linear")[0])


def test_synthetic_images_stand_in_for_a_dataset_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object, **__: object) -> None:
        raise LadderError("no source has mnist")

    monkeypatch.setattr("ladder.ties.tie.prepare", absent)
    said: list[str] = []
    recipe, folder, source = recipe_named("linear-sgd", None, said.append)
    assert (folder, source) == (None, "synthetic images of mnist's shape")
    assert said == ["data: SYNTHETIC images of mnist's shape: no source has mnist"]
    images, labels = open_split(synthetic(recipe.data, tmp_path / "data"), "train")
    assert images.shape == (recipe.data.train, 28, 28, 1)
    assert set(labels) == set(range(10))
    with pytest.raises(LadderError, match="no source has mnist"):
        recipe_named("linear-sgd", tmp_path, said.append)


def test_an_unknown_recipe_is_told_the_recipes() -> None:
    with pytest.raises(LadderError, match="there is no recipe 'resnet'; the recipes are: linear-sgd, mlp-sgd"):
        recipe_named("resnet", None, lambda _: None)


def test_the_command_passes_two_healthy_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(app, ["tie", "linear-sgd", "--b", "cpu", "--a-variant", "plain", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["word"], out["refused"]) == ("pass", "")
    assert [gate["passed"] for gate in out["gates"]] == [True] * 7
    assert {leaf["name"] for leaf in out["leaves"][0]} == {"params/fc1/w", "params/fc1/b", "step"}


def test_the_command_fails_a_faulty_side_and_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["tie", "linear-sgd", "--b", "cpu", "--b-fault", "stale=fc1/b", "--steps", "5"]
    assert run_app(app, argv) == 1
    out = capsys.readouterr().out.splitlines()
    table = out.index(next(line for line in out if line.startswith("leaf\t")))
    assert out[table + 1].startswith("params/fc1/b\t1.0e+00")
    assert any(line.startswith("G2\tupdate\t1\t") and "\tFAIL\t" in line for line in out)
    assert out[-1] == "fail"


def test_a_tie_without_a_long_curve_is_not_run_rather_than_passed(tied: Tied) -> None:
    recipe, _, data, _, _ = tied("linear")
    ended = tie(recipe, data, "mnist5k", Which("cpu", "plain"), Which("cpu"), 1, UPDATES, lambda _: None)
    assert (ended.word, ended.exit_code) == ("not-run", 3)


def test_variants_of_one_recipe_are_tied_by_their_own_programs(tied: Tied) -> None:
    recipe = next(r for r in recipes(MNIST5K) if r.net == "cnn")
    (a, plain), (b, matmul) = (resolve(Which("cpu", v), recipe) for v in ("plain", "matmul-gradient"))
    assert (a.label, b.label) == ("cpu, plain", "cpu, matmul-gradient")
    assert plain.sha != matmul.sha == resolve(Which("cpu", "matmul-gradient"), recipe)[1].sha
    assert matmul.plain_sha == plain.sha


def test_the_cache_of_the_user_is_the_childrens(monkeypatch: pytest.MonkeyPatch, tied: Tied, tmp_path: Path) -> None:
    recipe, program, data, _, _ = tied("linear")
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "cache"))
    run(CPU, program, recipe, data, [Job("a", 1, UPDATES)], tmp_path / "out")
    assert (paths.cache() / "xla").is_dir()
