"""The page of the lists in a real Chromium, that of the machine, without a network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine_requirements import missing

NAMES = ("chromium", "chromium-browser", "google-chrome")
NONE = "NO CHROMIUM: THE PAGE IS NOT TESTED IN A BROWSER"
STYLES = "e => { const s = getComputedStyle(e); return [s.color, s.backgroundColor, s.stroke]; }"


def chromium() -> str:
    """The browser's path; without one the test is skipped, or fails where all have to run and it can be installed."""
    return next(filter(None, map(shutil.which, NAMES)), None) or missing(NONE, NAMES[0])


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium. It runs as root as well, as continuous integration does."""
    from playwright.sync_api import sync_playwright

    path = chromium()
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


class Watched:
    """A page with all that it asked for, and all that it complained about."""

    def __init__(self, driver: Any, path: Path, **options: Any) -> None:
        self.page = driver.new_page(**options)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri())

    def section(self, words: str) -> Any:
        """The section of the first list with these words in its name."""
        return self.page.locator("section.list", has=self.page.locator(f"h3:has-text('{words}')")).first

    def column(self, words: str, head: str) -> list[str]:
        """The texts of a column of a list, from top to bottom, without hidden rows."""
        table = self.section(words).locator("table.lines")
        heads = [text.strip() for text in table.locator("thead th").all_inner_texts()]
        place = next(place for place, text in enumerate(heads) if text == head)
        rows = table.locator("tbody.entry:not([hidden]) > tr:first-child")
        return [row.locator(f":nth-child({place + 1})").first.inner_text().strip() for row in rows.all()]

    def style(self, selector: str) -> list[str]:
        """Colour, background and stroke of the first such element."""
        found: list[str] = self.page.locator(selector).first.evaluate(STYLES)
        return found
