"""`ladder tie`: a recipe's program on two sides, leaf by leaf and gate by gate."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ladder.cli.app import Json, app
from ladder.cli.output import print_json, print_table
from ladder.errors import LadderError

if TYPE_CHECKING:
    from ladder.ties.measure import LeafError
    from ladder.ties.tie import Tie


@app.command
def tie(
    recipe: str,
    /,
    *,
    a: str = "cpu",
    b: str = "iree-cpu",
    a_variant: str = "",
    b_variant: str = "",
    a_fault: str = "",
    b_fault: str = "",
    data_dir: str = "",
    seed: int = 1,
    steps: int = 100,
    as_json: Json = False,
) -> int:
    """Tie two sides: how far their arithmetic is apart, against float64 and against the bounds (gates G1 to G4).

    Args:
        recipe: Net and arm, e.g. cnn-sgd.
        a: The platform of one side.
        b: The platform of the other.
        a_variant: The program variant of side a, if not its platform's.
        b_variant: The program variant of side b, if not its platform's.
        a_fault: A fault to inject into side a, to see a gate go red.
        b_fault: A fault to inject into side b.
        data_dir: A folder with the original files of the dataset.
        seed: Of the initial state; each starts five batches after the one before.
        steps: Of the loss curve; with fewer than 100 gate G3 is not run.
    """
    from ladder.ties.tie import Which, recipe_named
    from ladder.ties.tie import tie as run_tie

    if seed < 1 or steps < 5:
        raise LadderError(f"--seed {seed} --steps {steps}: a seed is at least 1, and the update of 5 steps is compared")
    found = recipe_named(recipe, Path(data_dir).absolute() if data_dir else None, say)
    ended = run_tie(*found, Which(a, a_variant, a_fault), Which(b, b_variant, b_fault), seed, steps, say)
    if as_json:
        print_json(ended.to_json())
    else:
        show(ended)
    return ended.exit_code


def say(line: str) -> None:
    """A line about what is going on; results go to standard output, this does not."""
    print(line, file=sys.stderr, flush=True)


def show(ended: "Tie") -> None:
    """The leaves, worst first, after the step that is worst; then the gates and the word."""
    print(f"{ended.recipe}: a = {ended.a}, program {ended.programs[0][:12]}")
    print(f"{ended.recipe}: b = {ended.b}, program {ended.programs[1][:12]}")
    print(f"data: {ended.data}")
    if ended.measured:
        step = ended.measured.worst_step
        rows = [leaf_row(error) for error in ended.measured.leaves[step - 1]]
        print_table(rows, title=f"update of step {step}" if step == 1 else f"update of steps 1 to {step}")
    print_table(
        [
            {
                "gate": line.gate,
                "metric": line.metric,
                "value": f"{line.value:.2g}",
                "bound": f"{line.bound:.2g}",
                "": "pass" if line.passed else "FAIL",
                "what": line.told,
            }
            for line in ended.lines
        ],
        title="gates",
    )
    if ended.refused:
        print(f"refused: {ended.refused}")
    else:
        print("G4: no dropped state on either side")
    if ended.word == "not-run":
        print("G3 was not run: it takes 100 steps")
    print(ended.word)


def leaf_row(error: "LeafError") -> dict[str, str]:
    """A leaf's line of the table."""
    own = {"a from float64": f"{error.own[0]:.1e}", "b from float64": f"{error.own[1]:.1e}"} if error.own else {}
    relative, largest = f"{error.relative:.1e}", f"{error.largest:.1e}"
    return {"leaf": error.name, "relative": relative, "largest": largest, **own, "non-finite": str(error.non_finite)}
