"""The steps that make a file smaller, and the bytes that are left: what `fit_size` tries."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import tf_keras as keras

from tfdistill import compress, errors, models
from tfdistill.compress import factorisation
from tfdistill.tokenization.tokenizer import Tokenizer

from ..checking.evidence import FloatConversion
from ..conversion import prepare
from ..conversion import quantize as quantizing
from ..model.request import ExportRequest

Requested = Callable[[keras.Model, Tokenizer], ExportRequest]

TABLE = "word_embeddings"
_IN_4_BITS = ("dynamic_wi4_afp32_block32", "dynamic_wi4_afp32")  # the second for any width
_SCALE = 12  # bytes for each row of a table with scales of its own, zero point included
_A_LAYER = 7100  # bytes of the operators and scales of a layer in each signature


@dataclasses.dataclass(frozen=True)
class SizeStep:
    """A way to a smaller file."""

    summary: str  # a phrase
    # what it stores in 4 bits; the rest is in the requested quantization
    in_4_bits: Literal["nothing", "table", "all"] = "nothing"
    # whether the word table is a product of two factors, of as high a rank as fits
    factorised: bool = False
    # whether no more words stay than fit; factors have the least rank then
    fewer_words: bool = False

    @property
    def shrinks_in_one_way(self) -> bool:
        """Whether either factors or fewer words make its table smaller, not both."""
        return self.factorised != self.fewer_words


STEPS = (
    SizeStep("as it is"),
    SizeStep("word table in 4 bits", "table"),
    SizeStep("word table in 4 bits and two factors", "table", factorised=True),
    SizeStep("word table in 4 bits, fewer words", "table", fewer_words=True),
    SizeStep(
        "word table in 4 bits and two factors, fewer words",
        "table",
        factorised=True,
        fewer_words=True,
    ),
    SizeStep("all in 4 bits, fewer words", "all", factorised=True, fewer_words=True),
)
"""The steps of `fit_size`, the least lossy first; of factors and fewer words it measures which."""


def ranks(model: keras.Model) -> list[int | None]:
    """The ranks of two factors, descending; None alone where the model has one table."""
    high = factorisation.ranks(models.config_of(model).hidden_size)
    return [*high] if high and compress.can_factorise(model) else [None]


def usual_overhead(request: ExportRequest) -> float:
    """The bytes that a file takes besides its weights, about: the size of a file corrects it."""
    return _A_LAYER * models.config_of(request.model).num_layers * len(request.chosen_lengths)


def formats(request: ExportRequest, step: SizeStep, rank: int | None) -> tuple[str, dict[str, str]]:
    """The quantization of the file in a step, and of single layers."""
    if step.in_4_bits == "nothing":
        return request.quantize, dict(request.layers or {})
    blocks, rows = _IN_4_BITS
    stored = prepare.stored_weights(request.model, quantizing.quantization(blocks), {})
    if rank is not None:  # which blocks divide
        stored = [weight for weight in stored if weight.layer != TABLE]
    if step.in_4_bits == "all":
        return (blocks if _has_blocks(stored) else rows), {}
    table = [weight for weight in stored if weight.layer == TABLE]
    return request.quantize, {TABLE: blocks if _has_blocks(table) else rows}


def _has_blocks(weights: list[prepare.StoredWeight]) -> bool:
    try:
        prepare.check_blocks(weights)
    except errors.ConfigError:
        return False
    return True


def file_bytes(request: ExportRequest, step: SizeStep, rank: int | None) -> tuple[float, float]:
    """The bytes of all weights but the words, and of a word."""
    model, shape = request.model, models.config_of(request.model)
    quantize, layers = formats(request, step, rank)
    base = quantizing.quantization(quantize)
    rest, a_word = 0.0, 0.0
    if not isinstance(shape, models.WordVectorConfig):  # each signature has its own positions
        rest += 4 * shape.hidden_size * sum(request.chosen_lengths)
    for weight in prepare.stored_weights(model, base, prepare.resolve(model, base, layers)):
        stored_as = weight.quantization
        if weight.layer == TABLE:
            width = rank or weight.shape[1]
            with_scale = stored_as.weight_bits <= 8 and stored_as.table_scales == "row"
            scale = _SCALE if with_scale and not stored_as.block else 0
            a_word = width * stored_as.bytes_per_weight + scale
            rest += (rank or 0) * weight.shape[1]
        elif weight.is_matrix:
            rest += weight.num_elements * stored_as.bytes_per_weight
        else:
            rest += weight.num_elements * stored_as.least_bytes
    return rest, a_word


@dataclasses.dataclass(frozen=True, eq=False)
class SmallerModel:
    """A model with a smaller table of words, or as it is."""

    request: ExportRequest  # of its file
    # what fewer words do to the development texts, or None
    coverage: compress.VocabularyCoverage | None
    floats: FloatConversion


class SmallerModels:
    """The models of one whole model, each made once, in folders of their own."""

    def __init__(
        self,
        requested: Requested,
        whole: ExportRequest,
        corpus: Sequence[str],
        counts: np.ndarray,
        texts: Sequence[str],
        folder: pathlib.Path,
    ) -> None:
        """Takes training texts, the counts of their pieces, and the development texts."""
        self._requested, self._whole, self._folder = requested, whole, folder
        self._corpus, self._counts, self._texts = corpus, counts, texts
        as_it_is = SmallerModel(whole, None, FloatConversion(folder / "float32.tflite"))
        self._num_words = models.config_of(whole.model).vocab_size
        self._models: dict[tuple[int | None, int], SmallerModel]
        self._models = {(None, self._num_words): as_it_is}

    def of(self, rank: int | None, num_words: int) -> SmallerModel:
        """The one whose word vectors come from this rank, with so many words."""
        if (rank, num_words) not in self._models:
            folder = self._folder / f"smaller-{len(self._models)}"
            folder.mkdir()
            whole, coverage = self._whole, None
            model, tokenizer = whole.model, whole.tokenizer
            assert tokenizer is not None  # a size is fitted with a vocabulary
            if rank is not None:
                model = compress.factorise(model, rank, self._counts)
            if num_words < self._num_words:
                pruned = compress.prune_vocabulary(
                    model,
                    tokenizer,
                    self._corpus,
                    num_tokens=num_words,
                )
                model, tokenizer = pruned.model, pruned.tokenizer
                coverage = pruned.coverage(self._texts)
            request = self._requested(model, tokenizer).collected()
            request = request.replace(lengths=whole.chosen_lengths)
            floats = FloatConversion(folder / "float32.tflite")
            self._models[rank, num_words] = SmallerModel(request, coverage, floats)
        return self._models[rank, num_words]
