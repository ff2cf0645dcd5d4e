"""Pages from templates of jinja2. A template stands in the package that fills it."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Mapping
from typing import Any

from tfdistill.results import quantities, tables


def render(
    package: str, file: str, values: Mapping[str, Any], **filters: Callable[..., object]
) -> str:
    """Fills a template of a package, such as "tfdistill.report".

    Values in one for HTML (`.html.j2`) are escaped; others name their filters, which are `filters`,
    `markdown`, `code`, `size`, `megabytes`, `count` and `plural`.
    """
    import jinja2  # what only measures needs none

    folder = importlib.resources.files(package)
    environment = jinja2.Environment(
        autoescape=file.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
    )
    escapes = {"markdown": tables.markdown, "code": tables.markdown_code}
    words = {f.__name__: f for f in (quantities.size, quantities.count, quantities.plural)}
    environment.filters.update(escapes | words | {"megabytes": quantities.megabytes} | filters)
    return environment.get_template(file).render(values)
