"""The application, and the one place where an error becomes two lines and an exit code."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from ladder.errors import LadderError

if TYPE_CHECKING:
    from ladder.store.engine import Database

HELP = """Does this accelerator box train right? A ladder of training runs, held against multi-seed references.

Exit codes: 0 pass, 1 fail, 2 usage, 3 inconclusive, no reference or not run.
"""

app = App(
    name="ladder", help=HELP, help_format="plaintext", suppress_keyboard_interrupt=False, result_action="return_value"
)
reference_app = App(
    name="reference", help="References: the named, immutable sets of finals that runs are held against."
)
app.command(reference_app)

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON; its keys are stable.")]


def run_app(app: App, argv: Sequence[str]) -> int:
    """Run a command line; its exit code. An error is what is wrong, then the next command, on standard error."""
    try:
        result: Any = app(list(argv), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except LadderError as error:
        complain(error)
        return error.exit_code
    except CycloptsError as error:
        complain(LadderError(" ".join(str(error).split()), f"ladder {_command(app, argv)}--help"))
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has what it wanted
        return 141


def complain(error: LadderError, word: str = "error") -> None:
    """`error: what is wrong` and `  next: what to do` on standard error."""
    print(f"{word}: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  next: {error.hint}", file=sys.stderr)


def _command(app: App, argv: Sequence[str]) -> str:
    """The words of the command line that are commands: what --help is wanted for."""
    words: list[str] = []
    for word in argv:
        if word.startswith("-") or word not in app:
            break
        words.append(word)
        app = app[word]
    return " ".join((*words, ""))


@contextmanager
def database() -> "Generator[Database]":
    """The store, with what is new in the records folder indexed; a record that cannot be is told, not fatal."""
    from ladder import store

    with store.open() as opened:
        for error in opened.refresh():
            complain(error, "not indexed")
        yield opened.database
