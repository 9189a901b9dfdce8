"""From a run's lines to its verdicts: each recipe's finals beside the reference with its hash."""

from collections.abc import Mapping, Sequence

from ladder.recipes import Recipe
from ladder.records import FinalRow
from ladder.references import Match
from ladder.verdict import Cell, Finals, Word

LOST = {status: Word(status) for status in ("crashed", "timeout", "unsupported", "not-run")}


def cells(recipes: Sequence[Recipe], rows: Sequence[FinalRow], matches: Mapping[str, Match]) -> list[Cell]:
    """One cell a recipe, for `ladder.verdict.judge`; `matches` is keyed by recipe hash."""
    own = {r.hash: [row for row in rows if row.recipe_hash == r.hash] for r in recipes}
    return [_cell(r, own[r.hash], matches.get(r.hash)) for r in recipes]


def _cell(recipe: Recipe, rows: Sequence[FinalRow], match: Match | None) -> Cell:
    finals = tuple(row.correct for row in rows if row.status == "done" and row.correct is not None)
    diverged = sum(row.status == "diverged" for row in rows)
    statuses = [row.status for row in rows]
    return Cell(
        net=recipe.net,
        arm=recipe.arm,
        run=Finals(finals, recipe.data.test, diverged),
        reference=Finals(match.part.finite, match.part.total, match.part.diverged) if match else None,
        margin=recipe.margin,
        reference_name=match.reference.name if match else "",
        stand_in=match.stand_in if match else "",
        lost={word: statuses.count(status) for status, word in LOST.items() if status in statuses},
    )
