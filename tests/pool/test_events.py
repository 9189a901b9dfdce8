"""Events: whole lines, numbered without gaps; anything else is an error in words."""

import json
import time

import pytest

from ladder.pool.events import BadEvent, Event, decode

EVENT = Event("epoch", 3, 1.5, "mlp-sgd-s1", 2, {"epoch": 1, "correct": 97, "total": 100})


def test_an_event_comes_back() -> None:
    assert decode(EVENT.encode(), 3) == EVENT
    assert EVENT.encode().endswith(b"\n")
    assert EVENT.encode().count(b"\n") == 1


def test_a_line_is_what_the_design_says() -> None:
    assert list(json.loads(EVENT.encode()))[:6] == ["v", "seq", "t", "trial", "attempt", "type"]


NO_EVENTS = (b"garbage", b"", b"[1, 2]", b"null", b"3", b'{"v": 1, "seq": 3}', b"\xff\xfe", b'"text"')


@pytest.mark.parametrize("line", NO_EVENTS)
def test_anything_else_is_no_event(line: bytes) -> None:
    with pytest.raises(BadEvent, match="not an event"):
        decode(line, 3)


@pytest.mark.parametrize("seq", [2, 4, -1])
def test_a_gap_or_a_repeat_is_told(seq: int) -> None:
    with pytest.raises(BadEvent, match=f"event seq 3; expected {seq}: events were lost"):
        decode(EVENT.encode(), seq)


def test_another_version_is_told() -> None:
    line = EVENT.encode().replace(b'"v": 1', b'"v": 2')
    with pytest.raises(BadEvent, match="event version 2; this parent reads 1"):
        decode(line, 3)


def test_lines_for_people_name_trial_score_and_interval() -> None:
    told = Event("epoch", 0, time.time(), "mlp-sgd-s1", 1, {
        "epoch": 12, "train_loss": 0.01, "correct": 9790, "total": 10_000, "seconds": 1.5,
    }).line()  # fmt: skip
    score = "test 9790/10000 (97.90 %, Wilson 95 % 97.60-98.16)"
    assert told.startswith(f"mlp-sgd-s1: epoch 12: train loss 0.010000, {score}")
    assert Event("heartbeat", 0, 0.0, "t", 1, {}).line() == ""
