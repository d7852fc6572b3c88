"""The page of the lists as text: what its policy allows, what is escaped, its colours, and what is refused."""

import re
import sys
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from page_material import HOSTILE, page
from ranking_files import listed, of_site, written
from test_plots import stored

from hpcai.errors import HpcaiError, InputError
from hpcai.ranking.page import details, document, drawing, svg
from hpcai.ranking.page.details import CHANGED, Task, detail
from hpcai.ranking.pool import mapped
from hpcai.report import plots

pytestmark = pytest.mark.slow  # the page is made of results that are verified first: 20 s
ASSETS = document.HERE
CONTRAST = 4.5  # of text: Web Content Accessibility Guidelines 2.1, 1.4.3
COLOUR = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
FETCHING = ("src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Elements(HTMLParser):
    """All start tags of a page with their attributes, and the ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        return page(folder).read_text("utf-8")


def test_the_policy_allows_the_one_style_and_the_one_script_by_their_digests(text: str) -> None:
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', text)
    assert policy
    for tag in ("style", "script"):
        [inner] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = b64encode(sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;;" in policy[1]
    assert policy[1].startswith("default-src &#39;none&#39;;") and "unsafe" not in policy[1] and "http" not in policy[1]


def test_nothing_is_fetched_and_no_attribute_is_style_or_script(text: str) -> None:
    found = Elements(text).found
    assert {"svg", "table", "caption", "button", "use"} <= {tag for tag, _ in found}
    assert not {tag for tag, _ in found} & {"img", "link", "iframe", "object", "embed", "image", "base", "form"}
    names = {name for _, attributes in found for name in attributes}
    assert not names & {"style", *FETCHING} and not [name for name in names if name.startswith("on")]
    assert all(attributes["href"].startswith("#") for _, attributes in found if "href" in attributes)
    assert sum(tag == "script" for tag, _ in found) == sum(tag == "style" for tag, _ in found) == 1


def test_ids_are_unique_and_references_lead_to_one(text: str) -> None:
    found = Elements(text).found
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len({*ids})
    named = re.findall(r'(?:href="#|url\(#|aria-controls="|aria-labelledby="|for=")([^")]+)', text)
    assert named and {*named} <= {*ids}


def test_hostile_text_is_escaped(text: str) -> None:
    assert HOSTILE not in text and "<img" not in text
    assert text.count("&lt;script&gt;document.title=&#39;x&#39;&lt;/script&gt;&#34;&gt;&lt;img") >= 6


def test_heads_and_rows_have_scopes(text: str) -> None:
    found = Elements(text).found
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in found if tag == "th")
    assert {"h1", "h2", "h3", "h4"} <= {tag for tag, _ in found}


def luminance(colour: str) -> float:
    """Relative luminance (Web Content Accessibility Guidelines 2.1)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_of_text_and_curves_in_both_themes_and_in_print() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    blocks = [dict(COLOUR.findall(block)) for block in re.findall(r":root \{(.*?)\}", css(), re.DOTALL)]
    light, dark, printed = [block for block in blocks if block]
    assert light.keys() == dark.keys() | {"focus"} and printed.keys() < light.keys()
    for theme in (light, light | dark, light | printed):
        texts = [name for name in theme if name in ("text", "faint", "link") or name.startswith("series-")]
        for name in texts:
            for ground in ("ground", "raised"):
                assert contrast(theme[name], theme[ground]) >= CONTRAST, (name, ground, theme[name])
    assert len([name for name in light if name.startswith("series-")]) == len(svg.SERIES)


def css() -> str:
    return (ASSETS / "page.css").read_text("utf-8")


def test_a_figure_is_svg_without_styles_and_with_the_colour_of_the_text() -> None:
    tests = [("", test) for test in stored().tests]
    made = ElementTree.fromstring(svg.inline(plots.figure(plots.scaling, tests), "a", "Scaling <of> a run"))
    elements = [*made.iter()]
    assert made.attrib["aria-label"] == "Scaling <of> a run" and made.attrib["fill"] == "currentColor"
    assert not any("style" in each.attrib or each.tag in ("style", "metadata") for each in elements)
    values = {value for each in elements for value in each.attrib.values()}
    assert "currentColor" in values and not values & {svg.BLACK, svg.WHITE, *svg.SERIES}
    assert any(each.attrib.get("class") == "series-0" for each in elements)
    words = {each.text for each in elements if each.tag == "text"}
    assert "ranks P x Q (dashed: ideal, from the first test)" in words and any("%" in (word or "") for word in words)


def test_a_row_has_the_plots_that_its_run_has_numbers_for() -> None:
    result = stored()
    one, other = result.tests
    assert [title for title, _ in drawing.drawn(result, 1, "a")] == ["Quality over epochs"]
    sweep = replace(result, tests=(one, replace(other, p=4, q=1)))
    [(_, curve), (title, scaling)] = drawing.drawn(sweep, 2, "a")
    assert title == drawing.SCALING and "2: resnet8" in curve and "1: resnet8" not in curve and "4x1" in scaling
    assert drawing.drawn(result, None, "a") == []


def test_a_file_that_has_changed_since_has_no_details(tmp_path: Path) -> None:
    path = written(tmp_path / "run", of_site("Some")) / "result.json"
    found = detail(Task("a", str(path), details.digest(path), 1, plotted=False))
    assert found.checks and found.status == "UNOFFICIAL" and not found.plots and not found.note
    assert detail(Task("a", str(path), "0" * 64, 1, plotted=False)) == details.Detail(note=CHANGED)
    assert detail(Task("a", str(tmp_path / "absent.json"), "", 1, plotted=True)).note.startswith("no details: ")


def test_only_the_first_rows_of_a_list_have_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "PLOTTED_OF_LIST", 2)
    monkeypatch.setattr(document, "PLOTTED", 3)
    for number in range(3):
        written(tmp_path / "runs" / str(number), of_site(f"Site {number}"))
    assert listed(tmp_path / "runs", "--html", tmp_path / "lists.html") == 0
    assert (tmp_path / "lists.html").read_text("utf-8").count("<figure>") == 3  # of 2 lists: two rows, and one


def test_literature_has_its_sources(tmp_path: Path) -> None:
    written(tmp_path / "run", of_site("Some"))
    assert listed(tmp_path / "run", "--list", "literature", "--html", tmp_path / "lists.html") == 0
    made = (tmp_path / "lists.html").read_text("utf-8")
    assert "Fujitsu" in made and "published figures, not verified" in made and ">Source</button>" in made


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "run", of_site("Some"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "page.html").write_text("before")
    for place in (tmp_path / "absent/page.html", tmp_path / "folder"):
        with pytest.raises(HpcaiError, match="cannot write"):
            listed(tmp_path / "run", "--html", place)
    with pytest.raises(InputError, match="cannot write"):
        listed(tmp_path / "run", "--html", "a\0b")
    assert {path.name for path in tmp_path.iterdir()} == {"run", "folder", "page.html", "cache"}


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_its_packages_the_refusal_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'hpcai-bench\[page\]'") as refused:
        listed("anything", "--html", "lists.html")
    assert "\n" not in str(refused.value)


def test_tasks_are_done_in_the_order_given() -> None:
    assert mapped(str, [*range(20)], 2) == [str(number) for number in range(20)]
