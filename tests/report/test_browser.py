"""The page in a browser: nothing goes wrong, curves are drawn, switches switch, names stay text, and a page
of runs that go on is served to who has the token only.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import invented
from browsing import browser, visited  # noqa: F401
from understudy import web, write_report
from understudy.report.page import Live, asset

EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"
INK = """frame => {
  const canvas = frame.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 200) seen.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
  }
  return [...seen].length;
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    invented.study(folder / "study", learners=("ftl", "adaftrl", "ogd"), errors={4: EVIL}, missing=[8])
    invented.study(folder / "other", env=EVIL, returns=-20.0, expert=-10.0)
    return write_report(folder, out=folder / "report.html")


def test_curves_are_drawn_and_switches_switch(browser, file, tmp_path):  # noqa: F811
    with visited(browser, file.as_uri()) as page:
        page.get_by_role("radio", name="Invented-v0").click()
        assert "highest mean return of 3" in page.locator(".sentence").inner_text()
        frame = page.locator("#curves .chart").first
        frame.scroll_into_view_if_needed()
        page.wait_for_selector("#curves .chart[data-drawn='4']")  # three learners and the expert
        assert frame.evaluate(INK) > 3
        assert "against labels." in frame.get_attribute("aria-label")
        page.get_by_role("radio", name="Rounds").click()
        assert "against round." in page.locator("#curves .chart").first.get_attribute("aria-label")
        # The keyboard does the same, and the focus stays; a study has no seconds of rounds.
        page.keyboard.press("ArrowLeft")
        assert "against steps." in page.locator("#curves .chart").first.get_attribute("aria-label")
        assert page.evaluate("document.activeElement.textContent") == "Steps"
        assert page.get_by_role("radio", name="Seconds").is_disabled()
        page.locator("#curves .toggle", has_text="OGD").click()
        page.wait_for_selector("#curves .chart[data-drawn='3']")
        page.get_by_role("radio", name="logarithmic").click()
        before = page.locator("#run .run-title").inner_text()
        page.get_by_role("button", name="Next").click()
        assert page.locator("#run .run-title").inner_text() != before
        page.locator("#run-choice").select_option(label=next(
            one for one in page.locator("#run-choice option").all_inner_texts() if "failed" in one
        ))  # fmt: skip
        assert EVIL in page.locator("#run .banner").inner_text()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        with page.expect_download() as started:
            page.get_by_role("button", name="Download runs.csv").click()
        started.value.save_as(tmp_path / "runs.csv")
        assert (tmp_path / "runs.csv").read_text().count("\nstudy/") == 9
        # A name that is a script is text wherever it stands.
        page.locator("#verdict [role=radio]").first.click()
        assert page.locator("#verdict .tile-name").all_inner_texts()[:2] == ["Return", "Expert's return"]
        assert page.evaluate("window.evil") is None and EVIL in page.locator(".sentence").inner_text()


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_window(browser, file, width):  # noqa: F811
    with visited(
        browser, file.as_uri(), viewport={"width": width, "height": 700}, color_scheme="dark"
    ) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_live_page_follows_its_runs_and_wants_the_token(browser, tmp_path):  # noqa: F811
    invented.study(tmp_path / "study", missing=[5])
    live = Live([tmp_path], seconds=0)
    with web.Server(live.routes()) as server, visited(browser, server.url) as page:
        page.locator("#live", has_text="1 stopped").wait_for()
        assert page.locator("#compare td").all_inner_texts().count("3 (1 unfinished)") == 1
        lines = page.locator("#overview tbody tr").all_inner_texts()
        assert len(lines) == 6 and "stopped" in lines[0] and all("finished" in line for line in lines[1:])
        assert page.locator("#overview .spark").count() == 5
        assert page.locator("#overview .note").inner_text().startswith("6 runs, 1 stopped without an end.")
        page.locator("#overview tbody .toggle").nth(2).click()
        shown = page.locator("#run-choice").evaluate("one => one.selectedOptions[0].textContent")
        assert "FTL, seed 1" in lines[2] and shown.startswith("FTL, seed 1 ")
        page.focus("#run-choice")  # a list that may be open is not closed by what is new
        invented.study(tmp_path / "study")
        page.locator("#live", has_text="all runs are finished").wait_for()
        assert page.locator("#compare td").all_inner_texts().count("3 (1 unfinished)") == 1
        page.evaluate("document.activeElement.blur()")
        page.wait_for_function("() => !document.querySelector('#compare').innerText.includes('unfinished')")
        assert page.locator("#compare td").all_inner_texts().count("3") == 2
        assert page.locator("#verdict .tile-name").all_inner_texts()[:2] == [
            "Score, share of expert",
            "Return",
        ]
        assert "token" not in page.url
        for headers in ({}, {"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            address = server.address("/data") if headers else f"http://127.0.0.1:{server.port}/data"
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(urllib.request.Request(address, headers=headers))
    live.close()


def test_the_live_page_opens_on_the_run_that_goes_on(browser, tmp_path):  # noqa: F811
    from understudy import disk

    invented.study(tmp_path / "a", env="First-v0")
    invented.study(tmp_path / "b", env="Second-v0", missing=[4, 5])
    live = Live([tmp_path], seconds=0)
    with disk.lock(tmp_path / "b"), web.Server(live.routes()) as server, visited(browser, server.url) as page:
        page.wait_for_selector("#live.on")
        assert "Second-v0" in page.locator(".sentence").inner_text()
        lines = page.locator("#overview tbody tr").all_inner_texts()
        assert ["waiting" in line for line in lines[:3]] == [True, True, False]
    live.close()


@pytest.mark.slow
def test_a_thousand_runs_are_painted_within_two_seconds(browser, tmp_path):  # noqa: F811
    study = invented.study(
        tmp_path / "study", learners=("ftl", "ftrl", "alt_ftrl", "adaftrl", "ogd"), seeds=200, rounds=50
    )
    file = write_report(study, out=tmp_path / "report.html")
    painted = []
    for _ in range(3):
        began = time.perf_counter()
        with visited(browser, file.as_uri()) as page:
            painted.append(time.perf_counter() - began)
            found = page.evaluate("performance.getEntriesByType('paint').map(one => one.startTime)")
    print(f"{file.stat().st_size / 1e6:.1f} MB; ready after {min(painted):.2f} s, painted after {found} ms")
    assert min(painted) < 2.0 and file.stat().st_size < 6e6


def test_text_stands_out_in_both_themes():
    """Contrast of every colour of text against both grounds, as WCAG counts it."""
    blocks = re.findall(r"\{([^{}]*--paper:[^{}]*)\}", asset("page.css"))
    themes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]
    assert len(themes) == 3 and themes[1] == themes[2] != themes[0]

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        line = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
        return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2]

    for theme in themes:
        for ground in ("paper", "raised", "mark"):
            for name in ("ink", "soft", "accent", "good", "fair", "bad"):
                high, low = sorted((light(theme[ground]), light(theme[name])), reverse=True)
                assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ground)
