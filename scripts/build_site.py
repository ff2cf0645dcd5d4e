"""Builds the documentation and checks the built pages.

`mkdocs build --strict` checks links between Markdown files. This also checks the HTML: every link
and anchor leads somewhere, nothing is fetched from another host, and the reference has every
public name.
"""

import argparse
import ast
import html.parser
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).parents[1]
FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
# Of public functions that have the name of their module, the reference shows the full one.
OWN_MODULE = "{0}.{1}.{1}"


class Page(html.parser.HTMLParser):
    """The anchors of a page, its links, and the files that a browser fetches with it."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Collects what one tag refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if FETCHED.get(tag) in values and values.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(values[FETCHED[tag]])


def read_pages(site: pathlib.Path) -> dict[pathlib.Path, Page]:
    """Reads every page of a built site, other than that of missing pages."""
    files = [file.resolve() for file in site.rglob("*.html") if file.name != "404.html"]
    return {file: Page(file.read_text("utf-8")) for file in sorted(files)}


def link_faults(pages: dict[pathlib.Path, Page]) -> list[str]:
    """Lists links and fetched files that lead nowhere, and what another host would have to give."""
    faults = []
    for file, page in pages.items():
        for link in page.fetched:
            if urllib.parse.urlsplit(link).netloc:
                faults.append(f"{file.name}: fetches {link} from another host")
        for link in dict.fromkeys([*page.links, *page.fetched]):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path, anchor = urllib.parse.unquote(parts.path), urllib.parse.unquote(parts.fragment)
            target = (file.parent / path).resolve() if path else file
            if not target.is_file():
                faults.append(f"{file.name}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                faults.append(f"{file.name}: {link} leads to no anchor")
    return faults


def public_names(root: pathlib.Path = ROOT) -> dict[str, list[str]]:
    """Returns the `__all__` of `export` and of each package that `tfdistill` offers."""
    packages = _offered(root / "tfdistill" / "__init__.py")
    names = {}
    for package in ["export", *(f"tfdistill.{name}" for name in packages)]:
        folder = root / package.replace(".", "/")
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        names[package] = list(_assigned(file, "__all__"))
    return names


def _offered(file: pathlib.Path) -> list[str]:
    """The packages that `tfdistill` imports late: those of its block ``if TYPE_CHECKING:``."""
    return [
        alias.name
        for block in ast.parse(file.read_text("utf-8")).body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom) and line.module == "tfdistill"
        for alias in line.names
    ]


def _assigned(file: pathlib.Path, variable: str) -> tuple[str, ...]:
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == variable:
            return ast.literal_eval(node.value)
    return ()


def undocumented(names: dict[str, list[str]], anchors: set[str]) -> list[str]:
    """Lists the public names that no page of the reference describes."""
    return [
        f"{package}.{name} is not in the reference"
        for package, listed in names.items()
        for name in listed
        if f"{package}.{name}" not in anchors and OWN_MODULE.format(package, name) not in anchors
    ]


def unlisted(names: tuple[str, ...], index: str) -> list[str]:
    """Lists the names of `tfdistill` itself that the first page of the reference leaves out."""
    return [
        f"tfdistill.{name} is not in the list of the reference"
        for name in names
        if not name.startswith("_") and f"[`{name}`]" not in index
    ]


def main() -> int:
    """Builds the site into a folder and prints its faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", metavar="DIR", help="keep the site in this folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        site = pathlib.Path(args.out or temporary)
        command = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site.resolve())]
        quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement of the theme
        if subprocess.run(command, cwd=ROOT, env=quiet).returncode:
            return 1
        pages = read_pages(site)
        anchors = {anchor for page in pages.values() for anchor in page.anchors}
        index = (ROOT / "docs" / "reference" / "index.md").read_text("utf-8")
        faults = [
            *link_faults(pages),
            *undocumented(public_names(), anchors),
            *unlisted(_assigned(ROOT / "tfdistill" / "__init__.py", "__all__"), index),
        ]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"documentation: {len(pages)} pages, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
