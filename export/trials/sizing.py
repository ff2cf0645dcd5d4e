"""`fit_size`: the most accurate file of a model within a size limit."""

from __future__ import annotations

import dataclasses
import logging
import math
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np
import tf_keras as keras

from tfdistill import analysis, compress, errors, models
from tfdistill.compress import vocabulary
from tfdistill.manifest import Manifest
from tfdistill.results import Trial, quantities
from tfdistill.tflite import agreement
from tfdistill.tokenization.tokenizer import Tokenizer

from ..checking.outputs import model_logits
from ..conversion import prepare
from ..conversion import quantize as quantizing
from ..model import heads
from ..targets.tflite import refuse_weak
from . import size_steps
from .size_steps import STEPS, Requested, SizeStep, SmallerModel, SmallerModels
from .trial import ROUNDING, Trials, drop_faults, trials

_log = logging.getLogger(__name__)

_LABELLED = "labelled texts of a task to check on"
_ANY = 1e30  # a bound that everything keeps
_STRIPPED = f"Leave size_mb out, or fit {compress.FLOAT_WEIGHTS}."
_CLEARLY = 3.0  # dB: texts to come have more words without a row than development texts
_MOST_GUESSES = 3  # at how many words fit: the size of a file corrects the next guess


@dataclasses.dataclass(frozen=True, eq=False)
class SizeChoice:
    """A file of limited size, and what it costs on the development texts.

    Attributes:
      manifest: The file that was written.
      model: Its model, with fewer words where the step leaves some out.
      step: How it became small.
      limit_mb: The most megabytes (10^6 bytes) that were asked for.
      rank: Width of its word vectors, where the table has two factors; else None.
      num_words: Rows of its table of words.
      num_words_before: Rows of the table of the whole model.
      coverage: What fewer words do to the development texts; None where none are left out.
      metric: The name of the task's primary metric.
      model_metric: Its value for the whole model.
      file_metric: Its value for the file.
      keeps: Whether the file is no larger, and as accurate, as was asked for.

    Examples:
      >>> choice.keeps, choice.limit_mb  # what `fit_size` returned
      (True, 2.0)
      >>> choice.num_words == choice.num_words_before
      True
    """

    manifest: Manifest
    model: keras.Model
    step: SizeStep
    limit_mb: float
    rank: int | None
    num_words: int
    num_words_before: int
    coverage: compress.VocabularyCoverage | None
    metric: str
    model_metric: float
    file_metric: float
    keeps: bool

    @property
    def summary(self) -> str:
        """One line: size, step, cost on development texts."""
        parts = [
            f"size {quantities.size(self.manifest.model.size_bytes)} (at most {self.limit_mb:g} MB)"
        ]
        parts.append(self.step.summary + _described(self.rank, self.num_words))
        cost = f"{self.metric} of the file {self.file_metric:.4f}, of the model "
        parts.append(f"{cost}{self.model_metric:.4f}")
        if self.coverage is not None:
            seen = self.coverage
            parts.append(
                f"{seen.num_changed} of {seen.num_texts} development texts in other pieces, "
                f"{seen.num_unknown - seen.num_unknown_before} more [UNK]"
            )
        return "; ".join(parts)


def fit_size(
    requested: Requested,
    model: keras.Model,
    tokenizer: Tokenizer,
    *,
    size_mb: float,
    corpus: Iterable[str],
    max_drop: float = 0.01,
    or_nearest: bool = False,
    surely: bool = False,
) -> SizeChoice:
    """Exports a model as the most accurate file within a size limit.

    Tries `STEPS` in their order and leaves out those whose weights alone are too large. Two factors
    of the word table (`compress.factorise`) have the highest rank that fits, a multiple of 32 of at
    least a third of the width. Where words must go, as many stay as fit: those of `corpus`, and of
    the others the first of the vocabulary. Fewer words come before two factors where they leave
    less than half of the squared error (3 dB of SQNR) in the answers to the development texts; not
    where a model answers for tokens. Every file is checked as `to_tflite` does. The task's primary
    metric of the file on the development texts may be `max_drop` below that of the whole model.

    Args:
      requested: The request for a file of a model with a vocabulary: of the whole model and of
        one with fewer words. It names a task, and its `check_on` has labels.
      model: The whole model.
      tokenizer: Its tokenizer.
      size_mb: The most megabytes (10^6 bytes) of the file.
      corpus: Training texts, second ones included; never those that the request checks on.
      max_drop: The most that the metric may fall.
      or_nearest: Whether the nearest file is written where none fits and is accurate enough: of
        those that fit the most accurate, else the smallest.
      surely: Whether only a file is accurate enough of whose smaller table of words the development
        texts rule out (`analysis.least_change`) that it costs `max_drop`. Only the table is stored
        in 4 bits then.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the request has no labelled examples of a task.
      OutputExistsError: If a file is there and the request does not replace it.
      ParityError: If no file is good enough; with the nearest. Nothing is written.
      StudentError: If the model answers near chance, and the request does not allow it.

    Examples:
      >>> from export.model.request import ExportRequest
      >>> def requested(model, tokenizer):
      ...     return ExportRequest(model, "small/model.tflite", data=data.read_by(tokenizer))
      >>> options = {"size_mb": 2.0, "corpus": data.train_examples.texts, "max_drop": 1.0}
      >>> choice = export.fit_size(requested, student, data.tokenizer, **options)
      >>> choice.manifest.model.size_bytes < 2e6
      True
    """
    if not size_mb > 0:
        raise errors.ConfigError("size_mb", "a size above 0 MB", size_mb)
    if faults := drop_faults(max_drop):
        raise errors.ConfigError(*faults)
    if compress.is_quantize_aware(model):
        received = "a quantization-aware one, whose ranges are for one format and one table"
        raise errors.ConfigError("model of size_mb", "float weights", received, _STRIPPED)
    with trials(requested(model, tokenizer)) as tried:
        search = _SizeSearch(requested, tried, size_mb, [*corpus], max_drop, surely=surely)
        candidate = search.run()
        if candidate is None or not (search.keeps(candidate) or or_nearest):
            raise _nothing(search, candidate, size_mb)
        manifest = tried.deliver(candidate.file)
    return SizeChoice(
        manifest,
        candidate.smaller.request.model,
        candidate.step,
        size_mb,
        candidate.rank,
        candidate.num_words,
        models.config_of(model).vocab_size,
        candidate.smaller.coverage,
        search.metric,
        search.reached,
        search.metric_of(candidate),
        search.keeps(candidate),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Candidate:
    """A file that was tried."""

    step: SizeStep
    smaller: SmallerModel
    rank: int | None  # width of its word vectors, where the table has two factors; else None
    num_words: int  # rows of its table of words
    trial: Trial  # its figures
    file: pathlib.Path


class _SizeSearch:
    """Tries the steps on a model.

    `reached` is the primary metric of the whole model; `candidates` are the files so far.
    """

    def __init__(
        self,
        requested: Requested,
        tried: Trials,
        size_mb: float,
        corpus: list[str],
        max_drop: float,
        *,
        surely: bool,
    ) -> None:
        """Takes the arguments of `fit_size`, and scores the whole model."""
        whole = tried.request
        task, texts, tokenizer = whole.task, whole.texts, whole.tokenizer
        if task is None or texts is None or tokenizer is None or whole.check_on is None:
            raise errors.DataError("size_mb", _LABELLED, "none")
        plan = prepare.make_plan(whole)
        if plan.examples.labels is None:
            raise errors.DataError("size_mb", _LABELLED, "texts without labels")
        refuse_weak(plan)  # the whole model: a file near chance is one that lost too much
        self._logits = model_logits(plan.model, plan.examples, plan.lengths)
        self.metric = task.primary_metric
        self.reached = float(task.score(self._logits, plan.examples)[self.metric])
        self.candidates: list[_Candidate] = []
        self._answered: dict[tuple[int | None, int], tuple[prepare.ExportPlan, np.ndarray]] = {}
        self._max_drop, self._task = max_drop, task
        self._surely, self._steps = surely, STEPS[:-1] if surely else STEPS
        self._allowed = agreement.allowed_drop(max_drop, heads.num_scored(plan.examples), None)
        self._trials, self._whole = tried, whole.replace(lengths=plan.lengths)
        counts = vocabulary.count_pieces(corpus, tokenizer)
        self._num_words = models.config_of(whole.model).vocab_size
        self._needed = len(vocabulary.choose_tokens(counts, tokenizer))
        self._ranks = size_steps.ranks(whole.model)
        self._limit, self._overhead = 1e6 * size_mb, size_steps.usual_overhead(whole)
        self._per_token = plan.head.per_token
        texts_of = [*texts.texts, *(texts.pairs or ())]
        self._models = SmallerModels(requested, self._whole, corpus, counts, texts_of, tried.folder)

    @property
    def least(self) -> float:
        """The least metric that a file may have."""
        return self.reached - self._allowed - ROUNDING

    @property
    def certainty(self) -> str:
        """What else a file needs, for a message."""
        if not self._surely:
            return ""
        return f" and texts that rule out that the table costs {self._max_drop:g}"

    def keeps(self, candidate: _Candidate) -> bool:
        """Whether a file is small and accurate enough."""
        enough = self._fits(candidate) and self.metric_of(candidate) >= self.least
        return enough and (not self._surely or self._least_change(candidate) >= -self._max_drop)

    def _least_change(self, candidate: _Candidate) -> float:
        """The lower end of what a smaller table of words changes, before its file is rounded."""
        if candidate.step == STEPS[0]:
            return 0.0
        plan, logits = self._answers(candidate.rank, candidate.num_words)
        gold = analysis.gold_labels(plan.examples)
        return analysis.least_change(self._task, gold, self._logits, logits)

    def run(self) -> _Candidate | None:
        """Returns the first file that is small and accurate enough, or the nearest, or None."""
        for step in self._least_lossy_first():
            for _ in range(_MOST_GUESSES):
                shape = self._fitting(step)
                if shape is None:
                    break
                candidate = self._try(step, *shape)
                if self.keeps(candidate):
                    return candidate
                if candidate.trial.size_bytes is None or self._fits(candidate):
                    break
        if not any(map(self._fits, self.candidates)) and not self._surely:
            self._try(*self._smallest())
        files_written = [one for one in self.candidates if one.trial.size_bytes is not None]
        fitting = [one for one in files_written if self._fits(one)]
        if fitting:
            return max(fitting, key=self.metric_of)
        return min(files_written, key=lambda one: one.trial.size_bytes or 0, default=None)

    def _smallest(self) -> tuple[SizeStep, int | None, int]:
        """The step, the rank and the words of the smallest file that there is."""

        def shape(step: SizeStep) -> tuple[int | None, int]:
            rank = self._ranks[-1] if step.factorised else None
            return rank, self._needed if step.fewer_words else self._num_words

        def size(step: SizeStep) -> float:
            rank, num_words = shape(step)
            rest, a_word = size_steps.file_bytes(self._whole, step, rank)
            return rest + num_words * a_word

        step = min(STEPS, key=size)
        return step, *shape(step)

    def _fits(self, candidate: _Candidate) -> bool:
        size = candidate.trial.size_bytes
        return size is not None and size <= self._limit

    def metric_of(self, candidate: _Candidate) -> float:
        """The metric of a file; minus infinity where it has none."""
        value = candidate.trial.file_metrics.get(self.metric)
        return -math.inf if value is None else value

    def _fitting(self, step: SizeStep) -> tuple[int | None, int] | None:
        """The rank and the words of a step that fit; None where none do, or a step before has."""
        if step.factorised and self._ranks == [None] and step != STEPS[-1]:
            return None
        if step.fewer_words:
            rank = self._ranks[-1] if step.factorised else None
            rest, a_word = size_steps.file_bytes(self._whole, step, rank)
            num_words = int((self._limit - self._overhead - rest) // a_word)
            if num_words < self._needed or (num_words >= self._num_words and step != STEPS[-1]):
                return None
            return rank, min(num_words, self._num_words)
        for rank in self._ranks if step.factorised else [None]:
            rest, a_word = size_steps.file_bytes(self._whole, step, rank)
            if rest + self._overhead + self._num_words * a_word <= self._limit:
                return rank, self._num_words
        return None

    def _least_lossy_first(self) -> Iterator[SizeStep]:
        """`STEPS`, of the ways to a smaller table fewer words first if they clearly cost less."""
        ways = [step for step in self._steps if step.shrinks_in_one_way]
        for step in self._steps:
            if step not in ways or self._per_token:  # other tokens have other answers
                yield step
            elif step == ways[0]:
                yield from sorted(ways, key=self._score, reverse=True)

    def _score(self, step: SizeStep) -> float:
        """The score of a way: dB of the model with its table, in floats, against the whole."""
        shape = self._fitting(step)
        if shape is None:
            return -math.inf
        _, logits = self._answers(*shape)
        sqnr = agreement.compare(self._logits, logits).sqnr_db
        cost = "no other answer" if sqnr is None else f"{sqnr:.1f} dB"
        _log.info(f"size: {step.summary}{_described(*shape)}, before it is rounded: {cost}")
        return math.inf if sqnr is None else sqnr + (0.0 if step.fewer_words else _CLEARLY)

    def _answers(self, rank: int | None, num_words: int) -> tuple[prepare.ExportPlan, np.ndarray]:
        """The plan of a model with a smaller table, and its logits for the development texts."""
        if (rank, num_words) not in self._answered:
            plan = prepare.make_plan(self._models.of(rank, num_words).request)
            logits = model_logits(plan.model, plan.examples, plan.lengths)
            self._answered[rank, num_words] = plan, logits
        return self._answered[rank, num_words]

    def _try(self, step: SizeStep, rank: int | None, num_words: int) -> _Candidate:
        """Exports the model in a step, of a rank and with some of its words."""
        whole, smaller = self._whole, self._models.of(rank, num_words)
        quantize, layers = size_steps.formats(whole, step, rank)
        wider = self._max_drop > quantizing.quantization(quantize).bounds.metric_drop
        # The largest error of one text of hundreds says little where the metric is held.
        allowed = {"max_error": _ANY, **({"metric_drop": self._max_drop} if wider else {})}
        request = smaller.request.replace(
            quantize=quantize,
            layers=layers,
            lengths=whole.chosen_lengths,
            allow_weak=True,
            bounds={**allowed, **(whole.bounds or {})},
        )
        trial, file = self._trials.attempt(request, smaller.floats)
        candidate = _Candidate(step, smaller, rank, num_words, trial, file)
        if trial.size_bytes is not None:
            rest, a_word = size_steps.file_bytes(self._whole, step, rank)
            self._overhead = trial.size_bytes - rest - num_words * a_word
        self.candidates.append(candidate)
        _log.info(f"size: {self.describe(candidate)}")
        return candidate

    def describe(self, candidate: _Candidate) -> str:
        """A line on a file that was tried."""
        trial, reached = candidate.trial, self.metric_of(candidate)
        what = candidate.step.summary + _described(candidate.rank, candidate.num_words)
        size = "no file" if trial.size_bytes is None else quantities.size(trial.size_bytes)
        metric = "" if math.isinf(reached) else f", {self.metric} {reached:.4f}"
        why = "" if trial.verdict == "good" else f": {trial.why}".replace("\n", " ")
        verdict = trial.verdict
        if verdict == "good" and not self.keeps(candidate):
            cost = "loses too much" if reached < self.least else "may lose too much"
            verdict = cost if self._fits(candidate) else "too large"
        return f"{what}: {size}{metric}, {verdict}{why}"


def _described(rank: int | None, num_words: int) -> str:
    factors = "" if rank is None else f", rank {rank}"
    return f" ({num_words:,} words{factors})"


def _nothing(search: _SizeSearch, nearest: _Candidate | None, size_mb: float) -> errors.ParityError:
    """The error for a size that cannot be had."""
    least, received = f"{search.least:.4f}", "no file that answers like its model"
    if nearest is not None:
        size, _ = quantities.apart((nearest.trial.size_bytes or 0) / 1e6, size_mb)
        least, reached = quantities.apart(search.least, search.metric_of(nearest), 4)
        received = f"{size} MB and {reached} at the nearest"
    message = errors.explain(
        "size_mb",
        f"a file of at most {size_mb:g} MB, {search.metric} of at least {least}{search.certainty}",
        f"{received}; nothing was written",
        "Allow more MB or a larger max_drop, or train a narrower student.",
    )
    tried = "\n".join(f"  - {search.describe(each)}" for each in search.candidates)
    return errors.ParityError(f"{message}\n{tried}")
