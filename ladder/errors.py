"""The one error that reaches a user: what is wrong, in words, and the next command."""


class LadderError(Exception):
    """Bad input or a missing thing, told in one sentence.

    `str(error)` names the thing, the value and the limit; `hint` is the next command or step, if there
    is one. The CLI prints both without a traceback and exits with `exit_code` (2: usage).
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message
