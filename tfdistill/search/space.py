"""What may be proposed: every shape that the models support and that a method can teach. Pure."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence

from tfdistill import errors, models

METHODS = ("pruned", "tinybert", "minilm", "logits", "mobilebert")
# A kind is what sizes do not say: stack, activation, normalization. The presets have all of it.
KINDS = {
    "gelu": "BERT's layers, GELU, LayerNorm",
    "relu": "BERT's layers, ReLU, LayerNorm",
    "no_norm": "MobileBERT's blocks, 4 feed-forward networks, ReLU, NoNorm",
    "no_norm_2ffn": "MobileBERT-TINY's blocks, 2 feed-forward networks, ReLU, NoNorm",
}
_MOBILE_PRESETS = {"no_norm": "mobilebert", "no_norm_2ffn": "mobilebert_tiny"}
METHOD_KINDS = {
    "pruned": ("gelu", "relu"),
    "tinybert": ("gelu", "relu"),
    "minilm": ("gelu", "relu"),
    "logits": ("gelu", "relu", "no_norm", "no_norm_2ffn"),
    "mobilebert": ("no_norm", "no_norm_2ffn"),
}
_NARROWEST, _STEP, _SMALLEST_HEAD = 96, 8, 8
_DEPTHS = (2, 3, 4, 5, 6, 8, 10, 12)
_HEAD_SIZES = (32, 64)
_RATIOS = (2, 3, 4)  # feed-forward width / width
_PARTS = (1, 3 / 4, 1 / 2, 1 / 4, 1 / 8)  # of the teacher's neurons and heads, what is pruned to
_BLOCK_DEPTHS = (6, 9, 12, 18, 24)
_BLOCK_WIDTHS = (128, 256, 384, 512)
_BOTTLENECKS = (64, 96, 128, 160, 192)
_BLOCK_RATIOS = (2, 4)


@dataclasses.dataclass(frozen=True)
class Teacher:
    """What a teacher's shape decides about its students.

    Attributes:
      source: As in a recipe: a folder, a hub id or "preset:NAME".
      num_layers: Its depth; a uniform layer map wants a student's to divide it.
      num_heads: TinyBERT's students have as many, for attention is taught head by head.
      hidden_size: The widest a student may be.
      config: Its whole shape, which students that are cut out of it need; None where it is not
        known.
    """

    source: str
    num_layers: int = 12
    num_heads: int = 12
    hidden_size: int = 768
    config: models.EncoderConfig | None = None

    def __post_init__(self) -> None:
        """Refuses sizes that no teacher has."""
        for name in ("num_layers", "num_heads", "hidden_size"):
            if getattr(self, name) < 1:
                raise errors.ConfigError(f"teacher {name}", "at least 1", getattr(self, name))


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A student that may be proposed.

    Attributes:
      kind: One of `KINDS`.
      config: Its shape.
    """

    kind: str
    config: models.EncoderConfig

    @property
    def name(self) -> str:
        """Says the shape, such as ``4l_312d_12h_1248f_gelu``; unique in a space."""
        shape = self.config
        inside = f"{shape.attention_width}b_" if isinstance(shape, models.MobileBertConfig) else ""
        return (
            f"{shape.num_layers}l_{shape.hidden_size}d_{inside}{shape.num_heads}h_"
            f"{shape.intermediate_size}f_{self.kind}"
        )

    def with_layers(self, num_layers: int) -> Candidate:
        """The same layers, so many of them."""
        return Candidate(self.kind, self.config.replace(num_layers=num_layers))


def candidates(
    method: str,
    teacher: Teacher,
    *,
    kinds: Sequence[str] | None = None,
    quantize: str = "dynamic_wi8_afp32",
    vocab_size: int = 30522,
    max_length: int = 128,
) -> tuple[Candidate, ...]:
    """Lists every student that `method` can teach.

    pruned: parts of the teacher, fewer layers, neurons, heads and directions; heads keep their
    size, vocabulary and activation are the teacher's. tinybert: as many heads as the teacher, a
    depth that divides the teacher's. minilm and logits: heads of 32 or 64, any depth up to the
    teacher's. mobilebert (and logits): MobileBERT's blocks, of any depth, since its teacher is made
    to fit. None is wider than the teacher. Where weights are quantized in blocks, every width is a
    multiple of the block.

    Args:
      method: One of `METHODS`.
      teacher: The teacher.
      kinds: Some of the method's kinds; all by default.
      quantize: Of the file.
      vocab_size: Rows of the word table.
      max_length: The longest sequence, in tokens.

    Returns:
      The candidates in a fixed order, of unique names.

    Raises:
      ConfigError: If method or kinds are unknown or do not fit, or nothing is left.
    """
    if method not in METHODS:
        raise errors.ConfigError(
            "method", f"one of {METHODS}", repr(method), errors.nearest(method, METHODS)
        )
    wanted = METHOD_KINDS[method] if kinds is None else tuple(dict.fromkeys(kinds))
    unknown = [kind for kind in wanted if kind not in METHOD_KINDS[method]]
    if unknown or not wanted:
        raise errors.ConfigError(f"kinds for {method}", f"some of {METHOD_KINDS[method]}", unknown)
    block = _block(quantize)
    if method == "pruned":
        return _pruned(teacher, wanted, block)
    sizes = {"vocab_size": vocab_size, "max_positions": max(512, max_length)}
    found: list[Candidate] = []
    for kind in wanted:
        if kind in _MOBILE_PRESETS:
            shapes = _mobile_shapes(_MOBILE_PRESETS[kind], method, teacher)
        else:
            shapes = _bert_shapes(kind, method, teacher)
        found += [
            Candidate(kind, shape.replace(**sizes)) for shape in shapes if _fits(shape, block)
        ]
    if not found:
        raise errors.ConfigError(
            f"students for {method}",
            "a width that the heads of the teacher divide",
            f"{teacher.num_heads} heads, at most {teacher.hidden_size} wide, {quantize}",
            "Try --distiller logits, which asks for no equal heads, or another quantization.",
        )
    return tuple(found)


def _pruned(teacher: Teacher, kinds: Sequence[str], block: int) -> tuple[Candidate, ...]:
    """Every part of a teacher that a Hugging Face folder can hold."""
    whole = teacher.config
    if whole is None or whole.family in ("electra", "mobilebert"):
        raise errors.ConfigError(
            "teacher of pruned students",
            "a BERT, TinyBERT or DistilBERT whose config.json is at hand, or preset:NAME",
            teacher.source,
            "Give the folder of the fine-tuned teacher.",
        )
    kind = "relu" if whole.hidden_act == "relu" else "gelu"
    size = whole.head_width
    found = []
    for depth in range(1, whole.num_layers + 1):
        for width in _parts_of(whole.hidden_size, size):
            for heads in _parts_of(min(whole.num_heads, width // size), 1):
                for inner in _parts_of(whole.intermediate_size, _STEP):
                    shape = whole.replace(
                        num_layers=depth,
                        hidden_size=width,
                        num_heads=heads,
                        head_size=size,
                        intermediate_size=inner,
                    )
                    if width >= min(_NARROWEST, whole.hidden_size) and _fits(shape, block):
                        found.append(Candidate(kind, shape))
    if kind not in kinds or not found:
        raise errors.ConfigError(
            f"students pruned of {teacher.source}",
            f"blocks of its activation ({kind}), of widths that the quantization allows",
            f"{', '.join(kinds)}, blocks of {block}",
        )
    return tuple(found)


def _parts_of(whole: int, step: int) -> list[int]:
    """Parts of a size in multiples of `step`, the whole itself among them."""
    return sorted({whole, *(step * round(part * whole / step) for part in _PARTS)} - {0})


def _bert_shapes(kind: str, method: str, teacher: Teacher) -> Iterator[models.EncoderConfig]:
    family = "tinybert" if method == "tinybert" else "bert"
    for depth in _depths(method, teacher):
        for width, heads in _widths(method, teacher):
            for ratio in _RATIOS:
                yield models.EncoderConfig(
                    family=family,
                    num_layers=depth,
                    hidden_size=width,
                    num_heads=heads,
                    intermediate_size=ratio * width,
                    hidden_act=kind,
                )


def _depths(method: str, teacher: Teacher) -> list[int]:
    if method == "tinybert":
        return [n for n in range(2, teacher.num_layers + 1) if teacher.num_layers % n == 0]
    return [n for n in _DEPTHS if n <= teacher.num_layers]


def _widths(method: str, teacher: Teacher) -> Iterator[tuple[int, int]]:
    """Yields width and heads."""
    if method == "tinybert":
        heads = teacher.num_heads
        step = math.lcm(heads, _STEP)
        for width in range(step, teacher.hidden_size + 1, step):
            if width >= _NARROWEST and width // heads >= _SMALLEST_HEAD:
                yield width, heads
        return
    for size in _HEAD_SIZES:
        for width in range(size, teacher.hidden_size + 1, size):
            if width >= _NARROWEST:
                yield width, width // size


def _mobile_shapes(preset: str, method: str, teacher: Teacher) -> Iterator[models.MobileBertConfig]:
    base = models.preset(preset)
    assert isinstance(base, models.MobileBertConfig)
    for depth in _BLOCK_DEPTHS:
        for width in _BLOCK_WIDTHS:
            if method != "mobilebert" and width > teacher.hidden_size:
                continue
            for inside in _BOTTLENECKS:
                if inside > width // 2:
                    continue
                for ratio in _BLOCK_RATIOS:
                    yield base.replace(
                        num_layers=depth,
                        hidden_size=width,
                        embedding_size=min(128, width // 2),
                        bottleneck_size=inside,
                        intermediate_size=ratio * inside,
                    )


def _block(quantize: str) -> int:
    found = re.search(r"_block(\d+)$", quantize)
    return int(found[1]) if found else 1


def _fits(shape: models.EncoderConfig, block: int) -> bool:
    widths = [shape.hidden_size, shape.intermediate_size, shape.attention_width]
    if isinstance(shape, models.MobileBertConfig):
        widths.append(shape.embedding_size)
    return all(width % block == 0 for width in widths)
