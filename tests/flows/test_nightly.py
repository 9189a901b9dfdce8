"""When a box climbs by itself: once every night, also on the two nights when the clock is changed."""

import asyncio
import zoneinfo
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from flows import nightly
from flows.nightly import Nightly, local_timezone
from ladder.errors import LadderError

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> Nightly:
    return Nightly.parse(text, zone, "mnist", 8.0)


def test_a_time_of_day_becomes_a_cron_line() -> None:
    assert at("22:30").cron == "30 22 * * *"
    assert at("7:05").cron == "5 7 * * *"


@pytest.mark.parametrize("text", ["24:00", "12:60", "noon", "12", "1230", "-1:00", "12:30:00"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(LadderError, match="is no time of day"):
        at(text)


@pytest.mark.parametrize("hours", [0.0, -1.0, 24.5])
def test_a_night_has_a_budget_within_a_day(hours: float) -> None:
    with pytest.raises(LadderError, match="at most 24 hours"):
        Nightly.parse("22:30", BERLIN, "mnist", hours)


@pytest.mark.parametrize("hour", [0, 3, 12, 22, 23])
def test_the_server_starts_one_climb_a_night_also_when_the_clock_is_changed(hour: int) -> None:
    from prefect.server.schemas.schedules import CronSchedule

    for change in (datetime(2027, 3, 27), datetime(2027, 10, 30)):
        start = change.replace(tzinfo=ZoneInfo(BERLIN))
        cron = CronSchedule(cron=at(f"{hour:02}:30").cron, timezone=BERLIN)
        dates = asyncio.run(cron.get_dates(start=start, end=start + timedelta(days=3), n=10))
        local = [date.astimezone(ZoneInfo(BERLIN)) for date in dates]
        assert sorted({d.date() for d in local}) == sorted(d.date() for d in local)
        assert [(d.hour, d.minute) for d in local] == [(hour, 30)] * 3


def test_an_hour_that_a_clock_change_takes_away_is_warned_of() -> None:
    assert "clock is changed" in at("02:30").warning()
    assert "clock is changed" in at("01:00").warning()
    assert at("03:00").warning() == at("00:59").warning() == ""


def test_a_zone_without_clock_changes_has_no_bad_hour() -> None:
    assert at("02:30", "Asia/Tokyo").warning() == ""


def test_the_line_says_zone_and_next_start() -> None:
    now = datetime(2027, 1, 5, 23, 0, tzinfo=ZoneInfo(BERLIN))
    assert at("22:30").line(now) == "22:30 Europe/Berlin, to mnist, 8 h; next Wed 06 Jan 22:30 CET"


def test_the_boxs_zone_is_tz_then_etc_localtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_timezone() == "Asia/Tokyo"
    monkeypatch.delenv("TZ")
    monkeypatch.setattr(nightly.os.path, "realpath", lambda _: "/usr/share/zoneinfo/America/Lima")
    assert local_timezone() == "America/Lima"


def test_a_box_that_does_not_say_is_on_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "nowhere")
    monkeypatch.setattr(nightly.os.path, "realpath", lambda path: path)
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    assert local_timezone() == "UTC"


def test_every_zone_it_finds_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    assert local_timezone() in zoneinfo.available_timezones()
