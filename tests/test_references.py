"""References: published finals as text, bound by recipe hash; made from runs; never changed once named."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ladder import paths, records, references
from ladder.errors import LadderError
from ladder.recipes import mnist
from ladder.recipes.recipe import Recipe
from ladder.reference_text import Final, Part, Reference, dumps, loads
from tests.store import made

REPO = Path(__file__).resolve().parents[1]
GENERATOR = REPO / "scripts" / "published_references.py"
CONTENT = {  # a published reference never changes: these are what its file says for ever
    "bnprec-n5": "03d7245f",
    "cifar8w-constlr-n5": "d7c38eae",
    "imagenette-n5": "e80a451d",
    "mnist-n30": "529c05e3",
    "r34-ablation-fp32-n5": "cbe5b3f9",
    "small-seeds-n5": "42e2c6af",
}
HASHES = {"linear": "h1:fe6564bf", "mlp": "h1:e927a018", "cnn": "h1:7f2ac517"}


@pytest.fixture(scope="module")
def finals_json() -> Path:
    """The table of published finals, outside the repository."""
    shared = Path(os.environ.get("LADDER_SHARED") or REPO.parent / "shared")
    if not (file := shared / "reference" / "reference_finals.json").is_file():
        pytest.skip("no table of published finals: neither LADDER_SHARED nor ../shared has reference/")
    return file


def generate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, str(GENERATOR), *arguments], capture_output=True, text=True, check=False)


def published() -> dict[str, Reference]:
    return {r.name: r for r in references.load_all([paths.references()]) if r.kind == "published"}


def test_the_text_is_what_the_generator_makes_byte_for_byte(finals_json: Path) -> None:
    done = generate(str(finals_json), "--check")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_bindings_are_current() -> None:
    done = generate("--check")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_published_references_never_change() -> None:
    assert {name: r.content.removeprefix("sha256:")[:8] for name, r in published().items()} == CONTENT


def test_every_published_figure_agrees_with_the_table(finals_json: Path) -> None:
    """An oracle of its own: the table's summary, and its rows, read without the generator."""
    table = json.loads(finals_json.read_text())
    ours = published()
    seen = 0
    for row in table["rows"]:
        if row["group"] not in ours:
            continue
        part = ours[row["group"]].part(row["net"], row["arm"])
        assert part
        final = next(f for f in part.finals if f.seed == row["seed"])
        assert (final.correct, part.total, part.rung) == (row["correct"], row["total"], row["rung"])
        assert list(final.epoch_correct) == row.get("epoch_correct", [])
        where = final.source or ours[row["group"]].facts["source"]
        assert row["source"].startswith(f"{where} @{ours[row['group']].facts['commit']}")
        seen += 1
    assert seen == 255
    for line in table["ranges"]:
        part = ours[line["group"]].part(line["net"], line["arm"]) if line["group"] in ours else None
        if part and part.finite:
            spread = references.spread(part.finite)
            got = {k: 100 * spread[k] / part.total for k in ("min", "median", "max", "mean", "sd")}
            assert got == pytest.approx({k: line[k] for k in got}, abs=6e-4), line
            assert spread["n"] == line["n"]


def test_a_printed_nan_is_a_note_and_not_a_divergence() -> None:
    cnn = published()["mnist-n30"].part("cnn", "sgd")
    assert cnn
    of = {f.seed: f for f in cnn.finals}
    assert (of[23].correct, str(of[23].train_loss), of[23].note) == (9739, "nan", "final train loss printed NaN")
    assert [str(of[seed].epoch_loss[epoch - 1]) for seed, epoch in ((23, 12), (26, 11))] == ["nan", "nan"]
    assert cnn.diverged == 0
    collapsed = published()["small-seeds-n5"].part("cifar4", "sgd-lr0.1")
    assert collapsed
    assert (collapsed.diverged, collapsed.finite) == (5, ())


def test_the_mnist_sets_are_bound_and_say_where_they_differ() -> None:
    parts = published()["mnist-n30"].parts
    assert {p.net: (p.hash or "")[:11] for p in parts} == HASHES
    assert {p.net: len(p.finals) for p in parts} == dict.fromkeys(HASHES, 30)
    for part in parts:
        assert part.ours is not None
        assert Recipe.from_json(part.ours).hash == part.hash
        said = " ".join(part.differences)
        assert all(word in said for word in ("TF32", "NCHW", "initial parameters", "evaluation"))


def test_other_sets_wait_for_their_recipe_and_say_so() -> None:
    bound = ("mnist-n30", "cifar8w-constlr-n5", "bnprec-n5", "imagenette-n5", "r34-ablation-fp32-n5")
    waiting = [p for name, r in published().items() if name not in bound for p in r.parts]
    assert len(waiting) == 5
    assert all(p.hash is None and p.waiting not in ("", references.UNBOUND) for p in waiting)


def example(**changed: Any) -> Reference:
    finals = (
        Final(
            1, 9000, epoch_correct=(8000, 9000), epoch_loss=(0.5, float("nan")), train_loss=1e-05, note='say "x"\n\tü'
        ),
        Final(2, None, diverged=True, train_loss=float("nan")),
    )
    part = Part(
        "mnist", "mlp", "sgd", 10_000, {"rate": 1.0, "shape": [28, 28, 1], "in": {"a b": True, "none": None}}, finals
    )
    facts = {"note": "from \x7f there", "versions": {"jax": "0.12"}}
    return replace(Reference("x", "published", "2026-12-01", "cpu", "xla", facts, (part,)), **changed)


def test_text_is_read_back_as_it_was_and_written_again_the_same() -> None:
    text = dumps(example(), "two\nlines")
    again = loads(text, "x")
    assert dumps(again, "two\nlines") == text
    assert text.startswith("# two\n# lines\n")
    part = again.parts[0]
    assert (part.finals[0].note, part.fields["in"], again.facts["note"]) == (
        'say "x"\n\tü',
        {"a b": True},
        "from \x7f there",
    )
    assert part.finals[1] == replace(part.finals[1], correct=None, diverged=True)
    assert all("seed" in line for line in text.splitlines() if line.startswith("  {"))


def test_an_edited_reference_is_found_out(tmp_path: Path) -> None:
    text = dumps(example(), "")
    file = tmp_path / "x.toml"
    file.write_text(text.replace("correct = 9000", "correct = 9001"))
    with pytest.raises(LadderError, match=r"was edited.*never changes once named"):
        references.load(file)
    file.write_text("name = ")
    with pytest.raises(LadderError, match="cannot be read"):
        references.load(file)
    file.with_name("y.toml").write_text(text)
    with pytest.raises(LadderError, match="calls itself 'x'"):
        references.load(file.with_name("y.toml"))


def test_a_run_is_held_against_the_reference_with_its_hash_the_largest_then_by_name() -> None:
    recipe = mnist.recipes()[1]
    bound = replace(example().parts[0], hash=recipe.hash, ours=recipe.to_json())
    small, also = (example(name=name, parts=(bound,)) for name in ("b", "a"))
    large = example(name="z", parts=(replace(bound, finals=bound.finals * 2),))
    assert matched(references.find(recipe, [small, large, also])) == "z"
    assert matched(references.find(recipe, [small, also])) == "a"
    assert matched(references.find(recipe, [small, also], "b")) == "b"
    assert references.find(replace(recipe, epochs=3), [small, large]) is None


def matched(match: references.Match | None) -> str:
    assert match
    return match.reference.name


def test_naming_a_reference_of_another_recipe_lists_the_fields_that_differ() -> None:
    recipe = replace(mnist.recipes()[1], epochs=3, batch=64)
    with pytest.raises(LadderError, match=r"another recipe than mlp-sgd .*: batch 128 \| 64; epochs 12 \| 3") as error:
        references.find(recipe, references.load_all(), "mnist-n30")
    assert "--reference" in error.value.hint
    with pytest.raises(LadderError, match="small-seeds-n5 cannot be compared with mlp-sgd: its recipe was not read"):
        references.find(recipe, references.load_all(), "small-seeds-n5")
    with pytest.raises(LadderError, match="imagenette-n5 has no mlp-sgd; it has: resnet34-full"):
        references.find(recipe, references.load_all(), "imagenette-n5")
    with pytest.raises(LadderError, match="there is no reference 'mnist-n3'; near: mnist-n30"):
        references.find(recipe, references.load_all(), "mnist-n3")


def from_run(path: Path, name: str = "mine") -> Reference:
    return references.from_record(name, records.read(path), "a note")


def test_a_reference_from_a_run_has_its_finals_curves_recipe_and_origin() -> None:
    mlp = made.recipes(["mlp"])
    path = made.complete(
        [made.final(mlp[0], 2, 9780), made.final(mlp[0], 1, 9771), made.final(mlp[0], 3, 980, "diverged")], mlp
    )
    folder = paths.runs() / "references"
    assert references.add(from_run(path), folder, references.load_all())
    assert not references.add(from_run(path), folder, references.load_all())  # identical: nothing to do
    (found,) = (r for r in references.load_all() if r.name == "mine")
    (part,) = found.parts
    assert part.hash == mlp[0].hash
    assert part.ours is not None
    assert Recipe.from_json(part.ours) == mlp[0]
    assert [(f.seed, f.correct, f.diverged) for f in part.finals] == [
        (1, 9771, False),
        (2, 9780, False),
        (3, 980, True),
    ]
    assert (part.finite, part.finals[0].epoch_correct, part.finals[0].epoch_loss) == (
        (9771, 9780),
        (9471, 9771),
        (0.5, 0.1),
    )
    assert str(part.finals[2].epoch_loss[1]) == "nan"
    assert found.facts["run"] == path.name
    assert found.facts["core"]["commit"] == "c" * 40
    assert found.facts["note"] == "a note"
    assert matched(references.find(mlp[0], [found])) == "mine"


def test_a_name_that_is_taken_is_refused_and_the_file_stays() -> None:
    folder = paths.runs() / "references"
    references.add(from_run(made.healthy()), folder, references.load_all())
    before = (folder / "mine.toml").read_bytes()
    with pytest.raises(LadderError, match=r"there is a reference 'mine' already.*never changes once named"):
        references.add(from_run(made.healthy(shift=1)), folder, references.load_all())
    assert (folder / "mine.toml").read_bytes() == before
    with pytest.raises(LadderError, match="there is a reference 'mnist-n30' already"):
        references.add(from_run(made.healthy(), "mnist-n30"), folder, references.load_all())


@pytest.mark.parametrize("name", ["", "../up", "Upper", "a b", "bindings", "x" * 65])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(LadderError, match="is no name for a reference"):
        references.add(from_run(made.healthy(), name), paths.runs() / "references", ())


def test_what_can_become_no_reference_says_why() -> None:
    mlp = made.recipes(["mlp"])
    rows = [made.final(mlp[0], seed, 9770) for seed in (1, 2)]
    faulty = "faulty(xla, scaled-gradient=1.05)"
    refused = {
        "had a fault injected": made.complete([replace(r, lowerer=faulty) for r in rows], mlp),
        "had a fault injected.*nan-at=3": made.complete(rows, mlp, fault="nan-at=3"),
        "has 1 final of mlp-sgd": made.complete(rows[:1], mlp),
        "seed 2 of mlp-sgd twice": made.complete([*rows, rows[1]], mlp),
        r"lost 1 of 3 trials of mlp-sgd \(seed 3: crashed\)": made.complete(
            [*rows, made.final(mlp[0], 3, None, "crashed")], mlp
        ),
        "has no final": made.complete([], mlp),
    }
    for why, path in refused.items():
        with pytest.raises(LadderError, match=why):
            from_run(path)
    writer = made.partial(rows, mlp)
    with pytest.raises(LadderError, match="is running; only a complete run"):
        from_run(writer.path)
    writer.close()
    with pytest.raises(LadderError, match="is interrupted; only a complete run"):
        from_run(writer.path)


def test_two_references_of_one_name_that_differ_are_an_error(tmp_path: Path) -> None:
    for folder, date in (("a", "2026-12-01"), ("b", "2026-12-02")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.toml").write_text(dumps(example(date=date), ""))
    with pytest.raises(LadderError, match="two references named 'x' that differ"):
        references.load_all([tmp_path / "a", tmp_path / "b"])
    shutil.copy(tmp_path / "a" / "x.toml", tmp_path / "b" / "x.toml")
    assert len(references.load_all([tmp_path / "a", tmp_path / "b"])) == 1


def test_the_bindings_are_toml_that_names_existing_references() -> None:
    document = tomllib.loads((paths.references() / references.BINDINGS).read_text())
    assert {entry["reference"] for kind in document.values() for entry in kind} == set(published())
