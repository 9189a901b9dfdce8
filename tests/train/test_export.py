"""A program is the same text wherever its source lies, whatever the environment says, and it is what its SHA says."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ladder import paths
from ladder.errors import LadderError
from ladder.recipes import Recipe
from ladder.train import artifact
from ladder.train.artifact import Program, program_for

REPO = Path(__file__).resolve().parents[2]
TEST_BATCH = 64
TYPES = {"f32": "float32", "i32": "int32", "ui32": "uint32", "ui8": "uint8", "i64": "int64"}


@pytest.fixture
def tiny_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "TEST_BATCH", TEST_BATCH)


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without programs."""
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "programs"


def moved_source(to: Path) -> Path:
    """A copy of the source elsewhere, every traced file shifted by two lines."""
    for name in ("ladder", "models", "platforms"):
        shutil.copytree(REPO / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*(to / "models").glob("*.py"), *(to / "ladder" / "train").glob("*.py")):
        path.write_text("\n\n" + path.read_text())
    return to


def exported_from(source: Path, recipe: Recipe, folder: Path) -> str:
    """The SHA that a child gives which runs the source in `source`."""
    where = {"platform": "cpu", "variant": "plain", "folder": str(folder)}
    request = {"recipe": recipe.to_json(), **where, "test_batch": TEST_BATCH, "streamed": False}
    subprocess.run(
        [sys.executable, "-m", "ladder.train.export"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        input=json.dumps(request),
        text=True,
        check=True,
        capture_output=True,
    )
    return artifact.read(folder).sha


def test_moving_and_shifting_the_source_changes_nothing_and_changing_arithmetic_does(
    tmp_path: Path, program: Callable[[str], Program], tiny: dict[str, Recipe]
) -> None:
    source = moved_source(tmp_path / "moved")
    assert exported_from(source, tiny["mlp"], tmp_path / "same") == program("mlp").sha
    path = source / "ladder" / "train" / "feed.py"
    assert "/ 255.0" in path.read_text()
    path.write_text(path.read_text().replace("/ 255.0", "/ 256.0"))
    assert exported_from(source, tiny["mlp"], tmp_path / "other") != program("mlp").sha


def test_the_users_jax_settings_and_working_folder_do_not_reach_the_export(
    no_programs: Path,
    tiny_tests: None,
    tmp_path: Path,
    program: Callable[[str], Program],
    tiny: dict[str, Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder with a `models` package of its own, double precision, another matmul precision, another platform."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("raise SystemExit('the wrong models package was imported')")
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "JAX_ENABLE_X64": "1",
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
        "JAX_DEFAULT_PRNG_IMPL": "rbg",
        "JAX_PLATFORMS": "cuda",
    }.items():
        monkeypatch.setenv(name, value)
    made, cached = program_for(tiny["mlp"], "cpu")
    assert not cached
    assert made.sha == program("mlp").sha


@pytest.mark.parametrize("net", ["linear", "cnn"])
def test_the_boundary_is_whole_and_in_the_order_of_the_stablehlo_signature(
    net: str, program: Callable[[str], Program]
) -> None:
    for name, function in program(net).functions.items():
        signature = re.search(r"func\.func public @main\((.*?)\) -> (.*?)\{\n", program(net).stablehlo(name), re.S)
        assert signature, name
        for text, arrays in zip(signature.groups(), (function.inputs, function.outputs), strict=True):
            found = [
                ([int(n) for n in shape.split("x") if n], TYPES[dtype])
                for shape, dtype in re.findall(r"tensor<((?:\d+x)*)(\w+?)>", text)
            ]
            assert found == [(list(a.shape), a.dtype) for a in arrays], name


def test_unused_arguments_stay_at_the_boundary(program: Callable[[str], Program]) -> None:
    names = [a.name for a in program("linear").functions["step"].inputs]
    assert "key" in names  # no recipe here draws in the graph
    assert [a.name for a in program("linear").functions["step"].outputs] == [
        "state:params/fc1/b",
        "state:params/fc1/w",
        "state:step",
        "loss",
    ]
    assert "state:step" in [a.name for a in program("linear").functions["eval"].inputs]


def test_a_second_request_finds_the_program_in_the_cache(
    shared_cache: Path, tiny_tests: None, program: Callable[[str], Program], tiny: dict[str, Recipe]
) -> None:
    made = program("linear")
    again, cached = program_for(tiny["linear"], "cpu", "matmul-gradient")
    assert cached
    assert again.sha == made.sha
    longer, cached = program_for(
        replace(tiny["linear"], epochs=99), "cpu", "matmul-gradient"
    )  # the rate is computed on the host
    assert cached
    assert longer.sha == made.sha


def copied(program: Program, to: Path) -> Path:
    return Path(shutil.copytree(program.folder, to / program.folder.name))


@pytest.mark.parametrize("name", ["step.mlir", "step.bin", "program.json", "eval.bin"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_program_is_never_run(
    name: str, damage: str, tmp_path: Path, program: Callable[[str], Program]
) -> None:
    folder = copied(program("linear"), tmp_path)
    path = folder / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        half = len(content) // 2
        rest = b"" if damage == "cut" else bytes([content[half] ^ 1]) + content[half + 1 :]
        path.write_bytes(content[:half] + rest)
    if name == "program.json" and damage == "flipped":
        path.write_text("[]")
    with pytest.raises(LadderError, match=f"program {folder.name} in the cache"):
        artifact.read(folder)


def test_a_damaged_program_in_the_cache_is_exported_again(
    no_programs: Path, tiny_tests: None, program: Callable[[str], Program], tiny: dict[str, Recipe]
) -> None:
    folder = copied(program("linear"), no_programs)
    (folder / "step.bin").write_bytes(b"torn")
    mended, cached = program_for(tiny["linear"], "cpu", "matmul-gradient")
    assert not cached
    assert mended.folder == folder
    assert mended.sha == program("linear").sha
    assert program_for(tiny["linear"], "cpu", "matmul-gradient")[1]


def test_a_recipe_whose_parameter_count_is_not_the_nets_is_refused_and_leaves_nothing(
    no_programs: Path, tiny: dict[str, Recipe]
) -> None:
    with pytest.raises(LadderError, match="net linear has 7,850 parameters; its recipe says 7,851"):
        program_for(replace(tiny["linear"], parameters=7_851), "cpu")
    assert [path.name for path in no_programs.iterdir() if not path.name.endswith(".lock")] == []


def test_a_cache_that_cannot_be_written_is_an_error_in_words(
    tmp_path: Path, tiny: dict[str, Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(LadderError, match="cannot be written") as told:
        program_for(tiny["linear"], "cpu", "matmul-gradient")
    assert str(paths.cache()) in str(told.value)


def test_programs_of_other_recipes_targets_and_sources_have_other_keys(
    tiny: dict[str, Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny["mlp"]
    keys = [
        artifact.cache_key(recipe, "cpu"),
        artifact.cache_key(recipe, "cuda"),
        artifact.cache_key(recipe, "cpu", "matmul-gradient"),
        artifact.cache_key(replace(recipe, batch=8), "cpu"),
        artifact.cache_key(replace(recipe, data=replace(recipe.data, test=99)), "cpu"),
    ]
    monkeypatch.setattr(artifact, "source_sha", lambda: "another source")
    keys.append(artifact.cache_key(recipe, "cpu"))
    assert len(set(keys)) == len(keys)


def test_a_variant_that_changes_nothing_has_the_plain_programs_sha_and_one_that_does_carries_both(
    tiny_tests: None, program: Callable[[str], Program], tiny: dict[str, Recipe], shared_cache: Path
) -> None:
    for net, differs in {"mlp": False, "cnn": True}.items():
        fast, (plain, _) = program(net), program_for(tiny[net], "cpu")
        assert (fast.variant, plain.variant) == ("matmul-gradient", "plain")
        assert fast.plain_sha == plain.sha == plain.plain_sha
        assert (fast.sha != plain.sha) == differs
        assert fast.folder != plain.folder


def test_an_unknown_variant_is_told_the_variants(tiny: dict[str, Recipe]) -> None:
    with pytest.raises(LadderError, match="no program variant 'fast'; the variants are: plain, matmul-gradient"):
        program_for(tiny["mlp"], "cpu", "fast")
