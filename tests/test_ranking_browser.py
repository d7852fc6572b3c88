"""The page of the lists in a real browser: it sorts, filters and unfolds, loads nothing, and harms nobody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine_requirements import COMPLETE, WITHOUT
from page_browser import NONE, Watched, browser, chromium
from page_material import HOSTILE, MANY, SCRIPT, SITES, page

pytestmark = pytest.mark.slow  # the page is made of results that are verified first: 20 s


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        return page(folder)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture
def watched(driver: Any, made: Path) -> Iterator[Watched]:
    """The page; whatever a test does, it asks for nothing and complains about nothing."""
    seen = Watched(driver, made)
    yield seen
    assert seen.asked == [made.as_uri()]
    assert seen.complaints == []
    assert seen.page.title() == "HPCAI: lists of results"
    seen.page.close()


def numbers(texts: list[str]) -> list[float]:
    return [float(text) for text in texts if text]


@pytest.mark.exhaustive
def test_a_click_sorts_numbers_as_numbers_and_empty_cells_last(watched: Watched) -> None:
    head = watched.section(MANY).locator("th", has_text="kW")
    assert head.get_attribute("aria-sort") is None
    for direction in ("ascending", "descending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == direction
        shown = watched.column(MANY, "kW")
        assert shown[0] == "0.25" and set(shown[1:]) == {""}
    valid = watched.section(MANY).locator("th", has_text="Valid PFLOPS")
    valid.locator("button").click()
    assert head.get_attribute("aria-sort") is None
    found = numbers(watched.column(MANY, "Valid PFLOPS"))
    assert found == sorted(found) and len({*found}) > 2
    assert watched.column(MANY, "Site")[-1] == max(SITES, key=lambda site: SITES[site])


def test_numbers_are_sorted_by_value_where_the_text_would_be_otherwise(watched: Watched) -> None:
    """As texts, 10 would be before 9; 1e-5 would be between them."""
    rows = watched.section(MANY).locator("tbody.entry")
    for place, value in enumerate(("10", "9", "1e-5")):
        rows.nth(place).locator("td.number[data-value]").first.evaluate(
            "(cell, value) => { cell.dataset.value = value; cell.textContent = value; }", value
        )
    watched.section(MANY).locator("th.number button", has_text="Valid PFLOPS").first.click()
    found = numbers(watched.column(MANY, "Valid PFLOPS"))
    assert found == sorted(found) and {10.0, 9.0, 1e-5} <= {*found}


def test_the_keyboard_sorts_and_unfolds(watched: Watched) -> None:
    head = watched.section(MANY).locator("th", has_text="Site")
    head.locator("button").focus()
    watched.page.keyboard.press("Enter")
    names = watched.column(MANY, "Site")
    assert head.get_attribute("aria-sort") == "ascending"
    watched.page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert watched.column(MANY, "Site") != names and sorted(watched.column(MANY, "Site")) == sorted(names)
    outline = watched.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    fold = watched.section(MANY).locator("button.fold").first
    fold.focus()
    watched.page.keyboard.press("Enter")
    assert fold.get_attribute("aria-expanded") == "true"


def test_the_filter_shows_rows_with_all_words(watched: Watched) -> None:
    count = watched.page.locator("#count")
    total = watched.page.locator("tbody.entry").count()
    assert count.inner_text() == f"{total} of {total} rows shown"
    watched.page.get_by_label("Filter all lists").fill("BETA v3")
    assert watched.column(MANY, "Site") == ["Beta"]
    assert count.inner_text() == f"1 of {total} rows shown"
    assert not watched.page.locator("#not-ranked").is_visible()
    watched.page.get_by_label("Filter all lists").fill("no such text")
    assert count.inner_text() == f"0 of {total} rows shown"
    watched.page.get_by_label("Filter all lists").fill("")
    assert watched.page.locator("tbody.entry:visible").count() == total


def test_a_row_unfolds_and_stays_with_its_row_when_sorted(watched: Watched) -> None:
    entry = watched.section(MANY).locator("tbody.entry", has_text="Beta").first
    fold, detail = entry.locator("button.fold"), entry.locator("tr.detail")
    assert not detail.is_visible() and fold.get_attribute("aria-expanded") == "false"
    fold.click()
    shown = detail.inner_text()
    assert all(words in shown for words in ("Beta /", "PASSED", "AMD EPYC", "UNOFFICIAL", "target 0.05", "DATASET"))
    assert "runs/Beta/result.json" in shown
    watched.section(MANY).locator("th", has_text="Site").locator("button").click()
    assert detail.is_visible() and entry.locator("tr").count() >= 2
    fold.click()
    assert not detail.is_visible()


@pytest.mark.parametrize(
    ("words", "plots"),
    [(MANY, ["Quality over epochs"]), ("nas", ["Score of the search over time"]), ("GEMM", ["Roofline of a rank"])],
)
def test_plots_are_drawn_with_the_colours_of_the_page(words: str, plots: list[str], watched: Watched) -> None:
    section = watched.section(words)
    section.locator("button.fold").last.click()
    figures = section.locator("figure:visible")
    assert set(plots) <= {*figures.locator("figcaption").all_inner_texts()}
    curve = section.locator("figure:visible svg path.series-0, figure:visible svg .series-0").first
    colour = watched.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--series-0')")
    assert curve.evaluate("e => getComputedStyle(e).color") == as_rgb(colour)
    box = section.locator("figure:visible svg").first.bounding_box()
    assert box["width"] > 300 and box["height"] > 150


def as_rgb(colour: str) -> str:
    parts = [int(colour.strip()[place : place + 2], 16) for place in (1, 3, 5)]
    return f"rgb({', '.join(map(str, parts))})"


def test_a_report_alone_unfolds_to_what_it_has(watched: Watched) -> None:
    section = watched.section("from-report")
    section.locator("button.fold").first.click()
    shown = section.inner_text()
    assert "a printed report alone" in shown and "PASSED" in shown and "Printed" in shown and "[ensemble]" in shown


def test_hostile_names_are_text(watched: Watched) -> None:
    """In site, host, path and reason; the fixture finds scripts that ran, requests and complaints."""
    row = watched.section(MANY).locator("tbody.entry", has_text=SCRIPT)
    assert row.locator("th").first.inner_text() == HOSTILE
    row.locator("button.fold").click()
    shown = row.locator("tr.detail").inner_text()
    assert shown.count(HOSTILE) >= 4 and "hostile <img src=x onerror=alert(1)>/result.json" in shown
    reasons = watched.page.locator("#not-ranked").inner_text()
    assert SCRIPT in reasons
    assert watched.page.locator("img, iframe, object, link, body script:not(:last-of-type)").count() == 0


def test_the_policy_forbids_what_it_has_to(driver: Any, made: Path, tmp_path: Path) -> None:
    """The same page with an added script, style and picture: each is refused."""
    added = "<script>document.title='x'</script><p style='color: red' onclick='1'>a</p><img src='data:,'></main>"
    (tmp_path / "altered.html").write_text(made.read_text("utf-8").replace("</main>", added), "utf-8")
    seen = Watched(driver, tmp_path / "altered.html")
    assert seen.page.title() == "HPCAI: lists of results" and len(seen.complaints) >= 3
    assert all("Content Security Policy" in text for text in seen.complaints)


def test_dark_and_light_differ_and_print_has_no_controls(driver: Any, made: Path) -> None:
    seen = {scheme: Watched(driver, made, color_scheme=scheme) for scheme in ("light", "dark")}
    for each in seen.values():
        each.page.locator("button.fold").first.click()
    for selector in ("body", "figure svg", "figure svg .series-0", "figure svg text", "tr.detail > td"):
        assert seen["light"].style(selector) != seen["dark"].style(selector), selector
    dark = seen["dark"].page
    dark.emulate_media(media="print", color_scheme="dark")
    assert seen["dark"].style("body")[0] == "rgb(0, 0, 0)"
    assert not dark.locator("#filter").is_visible() and dark.locator("button.fold:visible").count() == 0
    assert dark.locator("tr.detail:visible").count() == 1
    assert dark.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("variables", "outcome"),
    [({}, "Skipped"), ({COMPLETE: "1"}, "Failed"), ({COMPLETE: "1", WITHOUT: "chromium"}, "Skipped")],
)
def test_a_missing_browser_fails_only_where_it_could_be_installed(
    variables: dict[str, str], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (COMPLETE, "CI", WITHOUT):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**variables, "PATH": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BaseException, match=NONE) as told:  # pytest's own, which are no Exceptions
        chromium()
    assert type(told.value).__name__ == outcome


def test_without_scripts_the_lists_are_there(driver: Any, made: Path) -> None:
    seen = Watched(driver, made, java_script_enabled=False)
    assert "Beta" in seen.page.inner_text("main") and not seen.page.locator("#filter").is_visible()
