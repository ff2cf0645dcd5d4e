"""Reads a page as a program that knows no layout does, and finds what such readers stumble over."""

import itertools
import re
import xml.etree.ElementTree as ET

HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


def tree_of(page):
    """The page as XML: that it parses is a test of its own."""
    return ET.fromstring(page)


def text_of(element):
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def table_of(tree, key):
    """The cells of a table, its head first."""
    for table in tree.iter(HTML + "table"):
        if table.find(HTML + "caption").get("id") == f"{key}-caption":
            return [
                [text_of(cell) for cell in row if cell.tag in (HTML + "th", HTML + "td")]
                for row in table.iter(HTML + "tr")
            ]
    raise AssertionError(f"no table {key}")


def chart_of(markup):
    """A chart as XML."""
    return ET.fromstring(str(markup))


def words_of(chart):
    """The texts of a chart, in their order."""
    return [e.text for e in chart.iter(SVG + "text")]


def pictures_of(tree):
    return [e for e in tree.iter(SVG + "svg") if e.get("aria-hidden") is None]


def requests_of(page):
    """Whatever in a page could lead outside of it."""
    tree = tree_of(page)
    outward = [
        e.tag
        for e in tree.iter()
        if e.tag in {HTML + name for name in ("script", "img", "iframe", "object", "link")}
        and e.get("href") != "data:,"
    ]
    for element in tree.iter():
        for name, value in element.attrib.items():
            if name.startswith("on"):
                outward.append(name)
            if name in ("href", "src") and not value.startswith(("#", "data:")):
                outward.append(value)
    style = text_of(next(tree.iter(HTML + "style")))
    outward += re.findall(r"url\(|@import", style)
    namespaces = {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"}
    return outward + sorted(set(re.findall(r"\w+://[^\"'<> ]+", page)) - namespaces)


def faults_of(tree):
    """What a reader with a keyboard or a screen reader would stumble over."""
    ids = [e.get("id") for e in tree.iter() if e.get("id")]
    faults = [f"two of id {name}" for name in {i for i in ids if ids.count(i) > 1}]
    if tree.get("lang") != "en":
        faults.append("no language")
    for landmark in ("header", "main", "nav", "footer", "h1"):
        if len(list(tree.iter(HTML + landmark))) != 1:
            faults.append(f"not one {landmark}")
    for link in tree.iter(HTML + "a"):
        if link.get("href")[1:] not in ids:
            faults.append(f"a link to nowhere: {link.get('href')}")
    for element in tree.iter():
        for name in ("aria-labelledby", "aria-describedby"):
            if element.get(name) is not None and element.get(name) not in ids:
                faults.append(f"{name} {element.get(name)}")
        if int(element.get("tabindex", 0)) > 0:
            faults.append("an order of its own")
    for section in tree.iter(HTML + "section"):
        if not section.get("aria-labelledby"):
            faults.append("a section without a name")
    for table in tree.iter(HTML + "table"):
        if not text_of(table.find(HTML + "caption")):
            faults.append("a table without a caption")
        if not all(cell.get("scope") in ("col", "row") for cell in table.iter(HTML + "th")):
            faults.append("a head without a scope")
    for region in tree.iter(HTML + "div"):
        if region.get("role") == "region" and region.get("tabindex") != "0":
            faults.append("a region that scrolls and takes no focus")
    for picture in pictures_of(tree):
        said = [picture.find(SVG + name) for name in ("title", "desc")]
        if picture.get("role") != "img" or not all(e is not None and text_of(e) for e in said):
            faults.append("a picture without words")
    levels = [int(e.tag[-1]) for e in tree.iter() if re.fullmatch(HTML + "h[1-6]", e.tag)]
    if levels[0] != 1 or any(b - a > 1 for a, b in itertools.pairwise(levels)):
        faults.append(f"headings {levels}")
    return faults
