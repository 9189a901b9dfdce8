"""How results are printed: rich tables on a terminal, lines of tab-separated cells elsewhere, JSON when asked."""

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ladder.errors import LadderError

Row = Mapping[str, str]


def print_json(value: Any) -> None:
    """JSON on standard output."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def print_table(rows: Sequence[Row], columns: Sequence[str] = (), title: str = "") -> None:
    """Rows that share their keys; only `columns`, if any are given. Without rows nothing is printed."""
    if not rows:
        return
    keys = [key for key in columns or rows[0] if key in rows[0]]
    if not sys.stdout.isatty():
        for line in (keys, *([row[key] for key in keys] for row in rows)):
            print("\t".join(" ".join(cell.split()) for cell in line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left")
    for key in keys:
        numbers = all(row[key].strip("+-%").replace(".", "", 1).isdigit() for row in rows if row[key])
        table.add_column(key, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[key]) for key in keys))
    Console().print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """A line a fact; those without a value are left out."""
    for key, value in facts.items():
        if value not in (None, "", [], {}):
            print(f"{key}: {value}")


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """CSV with a header; no value is an empty cell."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def number(value: float | None, digits: int = 2) -> str:
    """A figure, or nothing."""
    return "" if value is None else f"{value:.{digits}f}"


def one_of(**flags: bool) -> str:
    """The one flag that is set; the first if none is. Raises LadderError for more than one."""
    chosen = [name for name, is_set in flags.items() if is_set]
    if len(chosen) > 1:
        raise LadderError(f"--{' and --'.join(chosen)} were given; one format at a time")
    return chosen[0] if chosen else next(iter(flags))
