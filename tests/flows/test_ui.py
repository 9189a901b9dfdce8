"""What a person sees in the UI: the run form with its choices, and a finished run's verdict and curves.

LADDER_SCREENSHOTS=docs/images keeps the pictures of the README, of a run on the real MNIST.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.flows.conftest import Box

pytestmark = [pytest.mark.server, pytest.mark.browser]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
Finished = tuple["Box", dict[str, Any]]


@pytest.fixture(scope="module")
def page(up: "tuple[Box, Any]") -> "Iterator[Page]":
    """A browser page. Any request that leaves the box fails the test that sees it."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium, and this is CI")
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        made = browser.new_page(viewport={"width": 1280, "height": 1040})
        made.set_default_timeout(30_000)
        yield made
        browser.close()


@pytest.fixture(scope="module")
def shown(finished: Finished, request: pytest.FixtureRequest) -> Finished:
    """The run that is looked at: the tiny one, or one on the real MNIST when the pictures are to be kept."""
    if "LADDER_SCREENSHOTS" not in os.environ:
        return finished
    box, data = finished[0], request.getfixturevalue("mnist_gz")
    return box, box.finished(box.start("mnist", data_dir=str(data), nets=["linear"], seeds=5), 200)


def picture(page: "Page", name: str, tmp_path: Path) -> Path:
    """A screenshot; kept if asked for."""
    path = Path(os.environ.get("LADDER_SCREENSHOTS") or tmp_path) / f"{name}.png"
    page.screenshot(path=path)
    return path


def test_the_run_form_offers_choices(page: "Page", box: "Box", tmp_path: Path) -> None:
    outside: list[str] = []
    page.on("request", lambda r: None if r.url.startswith((box.url, "data:", "blob:")) else outside.append(r.url))
    deployment = box.api("/deployments/name/mnist/testbox")["id"]
    page.goto(f"{box.url}/deployments/deployment/{deployment}/run")
    page.get_by_text("platform (Optional)").wait_for()
    for chosen in ("linear", "mlp", "cnn", "cpu", "of the platform"):
        assert page.get_by_text(chosen, exact=True).first.is_visible(), chosen
    page.get_by_text("of the platform", exact=True).first.click()
    page.keyboard.press("ArrowDown")
    page.get_by_text("xla", exact=True).first.wait_for()
    assert picture(page, "run-form", tmp_path).stat().st_size < 150_000
    assert not outside


def test_a_finished_runs_page_shows_its_word_and_the_workers_lines(page: "Page", shown: Finished) -> None:
    box, run = shown
    page.goto(f"{box.url}/runs/flow-run/{run['id']}")
    page.get_by_text("linear-sgd-s1: epoch 1: train loss", exact=False).first.wait_for()
    assert page.get_by_text(run["state"]["name"], exact=True).first.is_visible()


def test_the_verdict_artifact_is_a_table_of_nets_and_verdicts(page: "Page", shown: Finished, tmp_path: Path) -> None:
    box, run = shown
    page.goto(f"{box.url}/artifacts/artifact/{box.artifacts(run['id'])['verdict-mnist-cpu-testbox']['id']}")
    page.get_by_text("linear", exact=True).first.wait_for()
    for head in ("net", "verdict", "reference"):
        assert page.get_by_text(head, exact=True).first.is_visible(), head
    assert picture(page, "verdict", tmp_path).stat().st_size < 150_000


def test_the_curves_artifact_is_a_picture_that_is_drawn(page: "Page", shown: Finished) -> None:
    box, run = shown
    page.goto(f"{box.url}/artifacts/artifact/{box.artifacts(run['id'])['curves-mnist-cpu-testbox']['id']}")
    drawn = page.locator("img[alt='curves']")
    drawn.wait_for()
    assert drawn.evaluate("image => image.naturalWidth") >= 800
