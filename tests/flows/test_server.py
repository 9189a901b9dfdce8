"""Which server a command talks to, and that the user's own Prefect is left alone."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from flows import command, server
from ladder.errors import LadderError


@pytest.fixture(autouse=True)
def nothing_is_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "PREFECT_PROFILES_PATH", "PREFECT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    server.home().mkdir(parents=True)


def write_profile(home: Path, active: str) -> None:
    home.mkdir(exist_ok=True)
    text = f'active = "{active}"\n[profiles.lab]\nPREFECT_API_URL = "http://lab:4200/api"\n[profiles.none]\n'
    (home / "profiles.toml").write_text(text)


def test_the_variable_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_profile(tmp_path / ".prefect", "lab")
    monkeypatch.setenv("PREFECT_API_URL", "http://fleet/api")
    assert server.choose() == server.Server("http://fleet/api", "PREFECT_API_URL", configured=True)


def test_then_the_users_active_profile(tmp_path: Path) -> None:
    write_profile(tmp_path / ".prefect", "lab")
    assert server.choose().api == "http://lab:4200/api"
    assert "'lab'" in server.choose().why
    write_profile(tmp_path / ".prefect", "none")
    assert server.configured() is None


def test_then_the_server_that_up_keeps() -> None:
    server.write_up("testbox", "http://127.0.0.1:4200/api", "http://127.0.0.1:4200")
    assert server.choose() == server.Server("http://127.0.0.1:4200/api", "`ladder up` on this box")


def test_an_up_that_was_killed_is_not_believed() -> None:
    server.write_up("testbox", "http://127.0.0.1:4200/api", "http://127.0.0.1:4200")
    file = server.home() / server.UP
    with subprocess.Popen(["true"]) as gone:
        pass
    file.write_text(json.dumps({**json.loads(file.read_text()), "process": f"{gone.pid} 1 boot"}))
    assert server.choose().api == ""


def test_else_a_temporary_one_that_says_what_it_costs_and_how_to_do_without() -> None:
    assert "--no-server" in server.choose().why
    assert server.environment(server.choose())["PREFECT_SERVER_EPHEMERAL_ENABLED"] == "true"


def test_our_own_server_has_a_home_of_its_own() -> None:
    env = server.environment(server.Server("http://127.0.0.1:4200/api", "up"))
    assert Path(env["PREFECT_HOME"]) == server.home()
    assert env["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert env["DO_NOT_TRACK"] == "1"


def test_a_configured_server_is_used_with_the_users_own_settings() -> None:
    env = server.environment(server.Server("http://lab/api", "profile", configured=True))
    assert env["PREFECT_API_URL"] == "http://lab/api"
    assert "PREFECT_HOME" not in env


def test_a_configured_server_that_does_not_answer_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(LadderError, match=r"http://127\.0\.0\.1:9/api.*does not answer") as refused:
        command.connect(lambda _: None)
    assert refused.value.exit_code == 2
    assert "--no-server" in refused.value.hint
    assert "PREFECT_CLIENT_MAX_RETRIES" not in os.environ


def test_on_a_new_box_prefects_folder_is_made_before_prefect_needs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LADDER_CACHE", str(tmp_path / "not" / "there" / "yet"))
    assert Path(server.environment(server.choose())["PREFECT_HOME"]).is_dir()


def test_a_folder_that_cannot_be_made_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_CACHE", "/proc/ladder")
    with pytest.raises(LadderError, match="cannot be made"):
        server.environment(server.choose())
