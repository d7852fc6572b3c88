"""Figures of matplotlib as SVG within an HTML page whose policy forbids style attributes.

Styles become presentation attributes. Black becomes the colour of the text around, the colours of curves become classes
that the page's style sheet gives a colour in light and dark; the background is transparent.
"""

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMESPACE = re.compile(r"\{.*\}")
LEFT_OUT = ("metadata", "style")  # elements; the style sheet would be forbidden, and act on the whole page
FONTS = ("font-family", "font")  # the page's style sheet has the family
FONT_SIZE = re.compile(r"[\d.]+px")
REFERENCE = re.compile(r"(?:url\()?#([\w.-]+)\)?")
REFERRING = ("href", "clip-path")  # attributes with the id of another element
BLACK, WHITE = "#000000", "#ffffff"
CURRENT = "currentColor"
# matplotlib's colours, tab:blue and so on: those of curves, in the order of the classes series-0, series-1, ...
SERIES = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")


def inline(figure: "Figure", name: str, label: str) -> str:
    """The SVG element of a figure. name: unique in the page, begins all ids in it. label: read aloud for it."""
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "text.parse_math": False, "svg.hashsalt": name}):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(text.getvalue())
    _without(root)
    for element in root.iter():
        _cleaned(element)
    _named(root, name)
    attributes = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label, "class": "plot"}
    lines = {"fill": CURRENT, "stroke-linejoin": "round", "stroke-linecap": "butt"}
    root.attrib = attributes | lines
    return ElementTree.tostring(root, "unicode")


def _without(parent: ElementTree.Element) -> None:
    """Leave out what a page must not have."""
    for child in [*parent]:
        if _local(child.tag) in LEFT_OUT:
            parent.remove(child)
        else:
            _without(child)


def _cleaned(element: ElementTree.Element) -> None:
    """Names without namespace, and attributes and classes in place of the style."""
    element.tag = _local(element.tag)
    found = {_local(name): value for name, value in element.attrib.items()}
    styles = dict(_styles(found.pop("style", "")))
    classes = [f"series-{SERIES.index(value)}" for value in dict.fromkeys(styles.values()) if value in SERIES][:1]
    if styles.get("fill") == WHITE:  # the ground of a legend, the face of a hollow marker
        classes.append("ground")
        del styles["fill"]
    element.attrib = found | {name: _colour(value) for name, value in styles.items()}
    if classes:
        element.attrib["class"] = " ".join(classes)


def _styles(text: str) -> Iterator[tuple[str, str]]:
    """The declarations of a style attribute that an attribute of SVG can state."""
    for part in filter(None, text.split("; ")):
        name, _, value = part.partition(": ")
        if name == "font" and (size := FONT_SIZE.search(value)):
            yield "font-size", size[0]
        if name not in FONTS:
            yield name, value.rstrip(";")


def _colour(value: str) -> str:
    return CURRENT if value == BLACK or value in SERIES else value


def _named(root: ElementTree.Element, name: str) -> None:
    """Ids that something refers to begin with the name; others are left out."""
    referring = [(each, key, each.attrib[key]) for each in root.iter() for key in REFERRING if key in each.attrib]
    used = {found[1] for _, _, value in referring if (found := REFERENCE.fullmatch(value))}
    for element in root.iter():
        own = element.attrib.pop("id", "")
        if own in used:
            element.attrib["id"] = f"{name}-{own}"
    for element, key, value in referring:
        element.attrib[key] = value.replace("#", f"#{name}-", 1)


def _local(name: str) -> str:
    return NAMESPACE.sub("", name)
