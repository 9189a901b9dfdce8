"""`ladder suite`: its goldens."""

import pytest

from ladder.cli.suite import goldens as command
from ladder.errors import LadderError
from ladder.suite.nets import goldens


def test_fresh_goldens_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(check=True, only="linear,mlp") == 0
    assert capsys.readouterr().out == "2 goldens are fresh\n"


def test_stale_ones_are_named_with_the_command_that_makes_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goldens, "remake", lambda nets, check: nets[:1])
    assert command(check=True, only="mlp,linear") == 1
    assert capsys.readouterr().err == "stale goldens: mlp\n  ladder suite goldens --only mlp\n"


def test_an_unknown_net_is_one_sentence() -> None:
    with pytest.raises(LadderError, match="--only 'lenet': there is no such net; the nets are: linear, mlp"):
        command(only="lenet")
