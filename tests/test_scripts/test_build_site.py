"""The checks of the built documentation, on small pages; `scripts/check` builds the real ones."""

import pathlib
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
sys.path.append(str(ROOT / "tests" / "test_report"))

import build_site  # noqa: E402
import chromium  # noqa: E402

GOOD = {
    "index.html": '<h1 id="top">A</h1> <a href="#top">a</a> <a href="guides/b.html#part">b</a>'
    ' <a href="https://example.org/">elsewhere</a> <img src="a%20picture.png">',
    "guides/b.html": '<link rel="canonical" href="https://example.org/b"> <h2 id="part">B</h2>',
    "a picture.png": "",
}


@pytest.fixture
def faults(tmp_path):
    def check(**changed):
        for name, text in (GOOD | changed).items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return build_site.link_faults(build_site.read_pages(tmp_path))

    return check


def test_whole_pages_have_no_fault(faults):
    assert faults() == []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="guides/c.html">c</a>', "index.html: guides/c.html leads to no file"),
        ('<a href="guides/">b</a>', "index.html: guides/ leads to no file"),
        ('<a href="guides/b.html#x">b</a>', "index.html: guides/b.html#x leads to no anchor"),
        ('<a href="#x">a</a>', "index.html: #x leads to no anchor"),
        ('<img src="b.png">', "index.html: b.png leads to no file"),
        (
            '<script src="https://example.org/a.js"></script>',
            "index.html: fetches https://example.org/a.js from another host",
        ),
        (
            '<link rel="stylesheet" href="//example.org/a.css">',
            "index.html: fetches //example.org/a.css from another host",
        ),
    ],
)
def test_what_leads_nowhere_or_elsewhere_is_named(html, fault, faults):
    assert faults(**{"index.html": html}) == [fault]


def test_a_public_name_without_a_description_is_named():
    names = build_site.public_names()
    anchors = {f"{package}.{name}" for package, listed in names.items() for name in listed}

    assert {"export", "tfdistill.models", "tfdistill.losses"} <= names.keys()
    assert build_site.undocumented(names, anchors) == []
    assert build_site.undocumented(names, anchors - {"tfdistill.training.fit"}) == [
        "tfdistill.training.fit is not in the reference"
    ]
    function = "tfdistill.training.fit.fit"  # hidden by its module of the same name
    assert build_site.undocumented(names, anchors - {"tfdistill.training.fit"} | {function}) == []


def test_a_public_name_that_the_first_page_leaves_out_is_named():
    index = (ROOT / "docs" / "reference" / "index.md").read_text("utf-8")
    names = build_site._assigned(ROOT / "tfdistill" / "__init__.py", "__all__")

    assert len(names) > 20
    assert build_site.unlisted(names, index) == []
    assert build_site.unlisted(names, index.replace("[`adamw`]", "")) == [
        "tfdistill.adamw is not in the list of the reference"
    ]


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason="needs Chromium: scripts/runtimes")
def test_the_search_of_a_folder_runs_without_a_server(tmp_path):
    """As the theme does: a worker of an address, messages both ways, the first before it runs."""
    shim = ROOT / "docs" / "iframe-worker.js"
    (tmp_path / "worker.js").write_text("addEventListener('message', e => postMessage(e.data + 1))")
    (tmp_path / "page.html").write_text(
        f"<body><script src='{shim.as_uri()}'></script><script>\n"
        "const worker = new Worker(new URL('worker.js', location));\n"
        "worker.addEventListener('message', e => (document.title = e.data));\n"
        "worker.postMessage(20);</script>"
    )
    with chromium.browser() as tab:
        tab.open(tmp_path / "page.html")
        deadline = time.monotonic() + chromium.PATIENCE_S
        while tab.run("document.title") != "21" and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (tab.run("document.title"), tab.complaints()) == ("21", [])
