"""The pages in a real browser. Skipped where there is none, except on CI."""

import io
import os

import numpy as np
import PIL.Image
import PIL.ImageStat
import pytest
from test_report import chromium, fake_results, fake_run

from tfdistill import report
from tfdistill.report import answer_sides
from tfdistill.report.sections import answers
from tfdistill.tasks import spec

pytestmark = pytest.mark.slow
WIDTHS = (320, 360, 390, 768, 1280, 1400)

OVERFLOW = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
TEXTS_OUTSIDE = """[...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""
NAMES_COVERED = """[...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const texts = [...svg.querySelectorAll("text")];
  const boxes = texts.map(e => [e.textContent, e.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
    a.left + 1 < b.right && b.left + 1 < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom
  ).map(([other]) => one + " | " + other));
})"""
MARKS_ON_NAMES = """[...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const marks = [...svg.querySelectorAll(".point")].map(e => e.getBoundingClientRect());
  return [...svg.querySelectorAll("text")].filter(text => {
    const a = text.getBoundingClientRect();
    return marks.some(b => a.left + 1 < b.right && b.left + 1 < a.right
      && a.top + 4 < b.bottom && b.top + 4 < a.bottom);
  }).map(text => text.textContent);
})"""
FOCUSED = """(() => {
  const e = document.activeElement, box = e.getBoundingClientRect();
  return {tag: e.tagName, href: e.getAttribute("href"), text: e.textContent.slice(0, 40),
    outline: getComputedStyle(e).outlineStyle, left: box.left, right: box.right};
})()"""


@pytest.fixture(scope="module")
def tab():
    if chromium.find() is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on this machine: apt-get install chromium")
        pytest.skip("no chromium on this machine")
    with chromium.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a run with everything in it, and one of many results."""
    folder = tmp_path_factory.mktemp("pages")
    run = fake_run.build(folder / "run")
    models = [
        fake_results.model(
            f"tinybert_{2 + i}l_312d_with_a_long_name_{'float32' if i % 2 else 'dynamic_wi8'}",
            number=i + 1,
            p50_ms=1.3**i,
            accuracy=0.8 + 0.004 * i - 0.01 * (i % 3),
            size_bytes=4_000_000 * (i + 1),
        )
        for i in range(14)
    ]
    for model in models:
        model.p50_ms.update({32: model.p50_ms[128] / 4, 64: model.p50_ms[128] / 2})
    results = {
        "host": fake_results.result(models, threads=(1, 2), comparisons=True, texts=True),
        "phone": fake_results.result(
            models[:5],
            kind="phone",
            backend="benchmark_model",
            blocks=True,
            threads=(1, 4),
            answers=[fake_results.answers(models[0].name, 0.81)],
            failures=[{"what": "GPU", "error": "expected all nodes, received 3 of 208. " * 12}],
        ),
    }
    for label, result in results.items():
        fake_run.write_json(folder / "many" / f"{label}.json", result)
    compared, _ = report.write_comparison([folder / "many"], folder / "compared")
    return {"run": report.write(run)[0], "compared": compared}


@pytest.fixture(params=["run", "compared"])
def page(request, pages):
    return pages[request.param]


SIZES = """[...document.querySelectorAll("svg[role=img]")]
  .map(e => e.getBoundingClientRect().width)"""
CUT = """[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth)
  .map(e => e.className)"""


def test_a_matrix_of_twelve_long_labels_is_not_cut(tab, tmp_path):
    labels = tuple(f"{name}_of_a_long_name_{'x' * 40}" for name in "abcdefghijkl")
    task = spec.TaskSpec("t", "text", "label", labels=labels)
    gold = np.arange(48) % 12
    logits = {"file": np.eye(12)[(gold + (np.arange(48) > 40)) % 12]}
    sides = answer_sides.AnswerSides(task, gold, logits, ())
    value = report.Report("r", "h", sections=tuple(answers.section(sides)))
    page = tmp_path / "page.html"
    page.write_text(report.render_html(value), encoding="utf-8")
    for width in (1400, 390):
        tab.open(page, width=width, phone=width < 500)
        assert tab.run(CUT) == [] and tab.run(OVERFLOW) == 0, width
        assert tab.run('document.querySelectorAll(".confusion th").length') == 25
        heads = '[...document.querySelectorAll(".confusion tbody th")]'
        narrowest = tab.run(f"Math.min(...{heads}.map(e => e.getBoundingClientRect().width))")
        assert narrowest > (150 if width > 500 else 300)  # a phone gives a row head a whole line


def test_the_browser_complains_of_nothing_and_asks_for_nothing(tab, page):
    tab.open(page)
    assert tab.complaints() == []
    assert [url for url in tab.requests() if not url.startswith(("file:", "data:"))] == []
    assert len({url for url in tab.requests() if url.startswith("file:")}) == 1


def test_nothing_is_cut_covered_or_too_small_at_any_width(tab, page):
    for width in WIDTHS:
        tab.open(page, width=width, phone=width < 500)
        assert tab.run(OVERFLOW) == 0, width
        tab.run('document.querySelectorAll("details").forEach(e => { e.open = true; })')
        assert tab.run(OVERFLOW) == 0, f"{width}, unfolded"
        faults = (TEXTS_OUTSIDE, NAMES_COVERED, MARKS_ON_NAMES, *([CUT] if width < 500 else []))
        assert not any(tab.run(fault) for fault in faults)
        least = 230 if width in (320, 1280) else 180  # between them three stand in a row
        assert min(tab.run(SIZES)) > least


def test_on_a_phone_each_value_stands_under_the_title_of_its_column(tab, page):
    tab.open(page, width=390, phone=True)
    shown = tab.run('getComputedStyle(document.querySelector("td"), "::before").content')
    title = tab.run('document.querySelector("thead th:nth-child(2)").textContent')
    assert shown.strip('"') == title


def test_the_page_says_all_of_it_without_scripts(tab, page):
    tab.open(page)
    with_scripts = tab.run("document.body.innerText")
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(page)
        assert len(tab.picture()) > 20_000
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.run("document.scripts.length") == 0
    assert len(with_scripts) > 2000


def test_whoever_prefers_dark_gets_a_dark_page(tab, page):
    brightness = {}
    for colours in ("light", "dark"):
        tab.open(page, colours=colours)
        image = PIL.Image.open(io.BytesIO(tab.picture())).convert("L")
        brightness[colours] = PIL.ImageStat.Stat(image).mean[0]
    assert brightness["light"] > 200 and brightness["dark"] < 70


def test_the_tab_key_goes_through_the_page_in_its_order_and_the_focus_shows(tab, page):
    tab.open(page)
    tab.press("Tab")
    first = tab.run(FOCUSED)
    assert first["href"] == "#main" and first["left"] >= 0  # the skip link comes into view
    seen = []
    for _ in range(12):
        tab.press("Tab")
        seen.append(tab.run(FOCUSED))
    links = [e["href"] for e in seen if e["tag"] == "A"]
    assert links == tab.run('[...document.querySelectorAll("nav a")].map(a => a.hash)')
    after = seen[len(links) :]
    assert after and all(e["tag"] in ("DIV", "SUMMARY") for e in after)
    assert all(e["outline"] == "solid" for e in seen)


def test_the_skip_link_leads_past_the_sections_and_a_folded_table_opens_by_keyboard(tab, page):
    tab.open(page)
    for key in ("Tab", "Enter", "Tab"):
        tab.press(key)
    assert tab.run(FOCUSED)["tag"] in ("DIV", "SUMMARY")
    tab.run('document.querySelector("summary").focus()')
    tab.press("Enter")
    assert tab.run('document.querySelector("details").open') is True


def test_a_screen_reader_finds_charts_tables_and_landmarks_by_name(tab, page):
    tab.open(page)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (n.get("role", {}).get("value"), n.get("name", {}).get("value", ""))
        for n in nodes
        if not n.get("ignored")
    ]
    roles = [role for role, _ in named]
    for role in ("main", "navigation", "banner", "contentinfo"):
        assert roles.count(role) == 1, role
    for role in ("image", "table", "region"):
        names = [name for r, name in named if r == role]
        assert names and all(names), role
    assert any(name.startswith("Accuracy against latency") for r, name in named if r == "image")


def test_on_paper_there_are_no_links_to_sections_and_nothing_is_cut(tab, page):
    tab.open(page, width=780)
    tab.media("dark", kind="print")  # a preference of the screen is none of the paper's
    assert tab.run('getComputedStyle(document.querySelector("nav")).display') == "none"
    assert tab.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    scrolled = tab.run(
        '[...document.querySelectorAll(".scroll")]'
        ".filter(e => getComputedStyle(e).overflowX !== 'visible').length"
    )
    assert scrolled == 0
    tab.media()


def test_the_pictures_of_the_documentation_can_be_taken(page, tmp_path):
    if chromium.find() is None:
        pytest.skip("no chromium on this machine")
    chromium.take_pictures(page, tmp_path)
    sizes = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == set(chromium.PICTURES)
    assert all(20_000 < size < 300_000 for size in sizes.values())
