"""`ladder platforms`: the page that tells which platforms run, made and checked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ladder import paths
from ladder.cli.app import Json, app
from ladder.cli.output import print_json
from ladder.errors import LadderError

if TYPE_CHECKING:
    from ladder.support import Page

PAGE = Path(__file__).resolve().parents[2] / "PLATFORMS.md"


@app.command
def platforms(
    *, check: Annotated[bool, Parameter(negative="")] = False, file: Path = PAGE, as_json: Json = False
) -> int:
    """Make PLATFORMS.md from the profiles and the kept and published records.

    Args:
        check: Write nothing; exit 1 when the page is not what the records give.
        file: Where the page is.
    """
    from ladder import support
    from ladder.records import write_atomic

    page = support.read(paths.runs())
    text = support.markdown(page)
    old = file.read_text("utf-8") if file.exists() else None
    if as_json:
        print_json({"file": file.name, "current": old == text, "platforms": _cells(page)})
    elif check or old == text:
        print(f"{file.name} is {'current' if old == text else 'stale'}")
    if check and old != text:
        if not as_json:
            print("next: ladder platforms, and commit it")
        return 1
    if not check and old != text and not as_json:
        try:
            write_atomic(file, text)
        except OSError as error:
            raise LadderError(f"{file} cannot be written: {error.strerror}") from error
        print(f"{file.name} is written; next: git add it")
    return 0


def _cells(page: "Page") -> list[dict[str, Any]]:
    from ladder.support import RUNGS

    rows: list[dict[str, Any]] = []
    for p in page.profiles:
        for box in page.boxes(p.name):
            for rung in RUNGS:
                kept = page.last(p.name, box, rung)
                rows.append(
                    {
                        "platform": p.name,
                        "box": box or None,
                        "rung": rung,
                        "date": kept.date if kept else None,
                        "verdict": kept.word if kept else None,
                        "record": kept.folder if kept else None,
                        "not_applicable": p.not_applicable.get(rung),
                    }
                )
    return rows
