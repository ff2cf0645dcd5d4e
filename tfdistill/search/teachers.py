"""The shape of a teacher, from its name or its folder, without its weights."""

from __future__ import annotations

import pathlib
import re

from tfdistill import errors, models, reading
from tfdistill.search.space import Teacher

_PRESET = "preset:"
# Published sizes, by what a hub id or a folder's name says.
_PUBLISHED = {"base": (12, 12, 768), "large": (24, 16, 1024)}


def find_teacher(
    source: str,
    *,
    num_layers: int | None = None,
    num_heads: int | None = None,
    hidden_size: int | None = None,
) -> Teacher:
    """Finds out how deep and wide a teacher is and how many heads it has.

    Args:
      source: A Hugging Face folder, "preset:NAME", or a hub id that says "base" or "large".
      num_layers: What it is known to have; so for the others. All three make `source` free.
      num_heads: Attention heads.
      hidden_size: Width.

    Returns:
      The teacher.

    Raises:
      ConfigError: If nothing is known of it.
      WeightsError: If it is of another kind.
    """
    given = (num_layers, num_heads, hidden_size)
    found: tuple[int, ...] | None = None
    whole: models.EncoderConfig | None = None
    config_file = pathlib.Path(source).expanduser() / "config.json"
    words = set(re.split(r"[^a-z]+", source.lower()))
    sized = sorted(words & _PUBLISHED.keys())
    if all(given):
        found = (0, 0, 0)
    elif source.startswith(_PRESET):
        whole = models.preset(source.removeprefix(_PRESET))
    elif config_file.is_file():
        whole = _read(config_file)
    elif len(sized) == 1 and "bert" in source.lower():
        found = _PUBLISHED[sized[0]]
    if whole is not None:
        found = _sizes(whole)
    if found is None:
        raise errors.ConfigError(
            "teacher",
            "a folder with a config.json, preset:NAME, or a hub id that says base or large",
            repr(source),
            "Give --teacher-layers, --teacher-heads and --teacher-width.",
        )
    chosen = [own if own is not None else known for own, known in zip(given, found, strict=True)]
    return Teacher(source, *chosen, config=whole if tuple(chosen) == found else None)


def _read(path: pathlib.Path) -> models.EncoderConfig:
    from tfdistill.weights import hf_config

    return hf_config.parse_config(reading.read_json_object(path, error=errors.ConfigError))


def _sizes(config: models.EncoderConfig) -> tuple[int, ...]:
    if not isinstance(config, models.EncoderConfig):
        raise errors.ConfigError("teacher", "a transformer", f"a {config.title}")
    return config.num_layers, config.num_heads, config.hidden_size
