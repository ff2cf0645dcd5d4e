"""fit_size: the most accurate file within a size limit, or the nearest, or none."""

import dataclasses
import math
import shutil
import types

import numpy as np
import pytest

import export
from export.checking.outputs import model_logits
from export.conversion import quantize
from export.model import heads
from export.model.request import ExportRequest
from export.trials import size_steps, sizing, trial
from tfdistill import compress, errors, models
from tfdistill.data.batches import encode_examples
from tfdistill.results import Trial
from tfdistill.tokenization.reading import read_tokenizer, read_vocab

pytestmark = pytest.mark.slow

NUM_WORDS, WIDTH = 200, 96
REST = 150_000  # bytes of the pretended file besides its words
TABLE = NUM_WORDS * WIDTH  # bytes in 8 bits
IN_4_BITS = 0.5625  # bytes of an element, with its part of a block's scale
INT8, INT4 = "dynamic_wi8_afp32", "dynamic_wi4_afp32_block32"


@pytest.fixture(scope="module")
def wide(toy, lively):
    """The toy with a width that blocks and ranks divide; its own answers are the labels."""
    config = toy.config.replace(hidden_size=WIDTH, intermediate_size=WIDTH)
    model = lively(models.build_classifier(config, 3))
    kernel, bias = model.get_layer("classifier").get_weights()
    bias -= model_logits(model, toy.encoded).mean(axis=0)  # so that each class is answered
    model.get_layer("classifier").set_weights([kernel, bias])
    labels = model_logits(model, toy.encoded).argmax(axis=1).astype(np.int32)
    texts = dataclasses.replace(toy.texts, labels=labels)
    return dataclasses.replace(toy, model=model, config=config, texts=texts)


@pytest.fixture
def requested(wide, tmp_path):
    """The request of an export of the model, in the tokens of a vocabulary."""

    def request(model, tokenizer):
        encoded = encode_examples(wide.texts, tokenizer, max(wide.lengths))
        arguments = wide.arguments(check_on=encoded, texts=wide.texts, tokenizer=tokenizer)
        return ExportRequest(model, tmp_path / "out" / "model.tflite", **arguments)

    return request


@pytest.fixture
def fit(wide, requested):
    """Fits the model to a size in bytes."""

    def fit(size, corpus=None, **options):
        corpus = [*wide.texts.texts, *wide.texts.pairs] if corpus is None else corpus
        arguments = {"size_mb": size / 1e6, "corpus": corpus, **options}
        return export.fit_size(requested, wide.model, read_tokenizer(wide.vocab_file), **arguments)

    return fit


class Attempts:
    """Stands in for `attempt`: a size by formats, rank and words, drops by the format of words."""

    def __init__(self, source):
        self.source = source
        self.tried = []
        self.allowed = set()
        self.drops = {}
        self.refused = set()

    def __call__(self, request, **_):
        table = request.layers.get("word_embeddings", request.quantize)
        shape = models.config_of(request.model)
        width = shape.embedding_size or WIDTH
        self.tried.append((request.quantize, table, shape.embedding_size, shape.vocab_size))
        self.allowed.add((request.bounds or {}).get("metric_drop"))
        if table in self.refused:
            return Trial(name=request.quantize, verdict="beyond bounds", why="far off")
        for source in self.source.parent.iterdir():
            shutil.copy(source, request.path.parent)
        rest = (0.6 * REST if request.quantize == INT4 else REST) + width * WIDTH * (width < WIDTH)
        words = shape.vocab_size * width * (IN_4_BITS if table == INT4 else 1)
        return Trial(
            name=request.quantize,
            layers=request.layers,
            verdict="good",
            size_bytes=int(rest + words),
            file_metrics={"accuracy": 1.0 - self.drops.get(table, 0.0)},
            primary_metric="accuracy",
        )


@pytest.fixture
def attempts(exported, monkeypatch):
    stub = Attempts(exported("dynamic_wi8_afp32").path)
    monkeypatch.setattr(trial, "attempt", stub)
    monkeypatch.setattr(size_steps, "_A_LAYER", 0)  # less than the pretended files have
    return stub


ALL_IN_4_BITS = 0.6 * REST + NUM_WORDS * 32 * IN_4_BITS + 32 * WIDTH + 500
STEPS = {
    "it fits as it is": (REST + TABLE + 1, {}, set(), (INT8, INT8, None)),
    "its table in 4 bits": (REST + TABLE - 1, {}, set(), (INT8, INT4, None)),
    "8 bits cost too much": (REST + TABLE + 1, {INT8: 0.2}, set(), (INT8, INT4, None)),
    "all in 4 bits keeps all words": (ALL_IN_4_BITS, {}, {INT8}, (INT4, INT4, 32)),
}


@pytest.mark.parametrize(("size", "drops", "refused", "last"), STEPS.values(), ids=STEPS)
def test_the_first_step_that_fits_and_answers_well_is_taken(
    size, drops, refused, last, fit, attempts
):
    attempts.drops, attempts.refused = drops, refused
    choice = fit(size, max_drop=0.1)

    assert attempts.tried[-1] == (*last, NUM_WORDS)
    assert (choice.rank, choice.num_words, choice.keeps) == (last[2], NUM_WORDS, True)


@pytest.fixture
def low_rank(wide):
    """Makes the table of words a product of rank 32 while a test runs."""
    layer = wide.model.get_layer("word_embeddings")
    (table,) = layer.get_weights()
    left, scales, right = np.linalg.svd(table, full_matrices=False)
    scales[32:] = 0.0
    layer.set_weights([(left * scales) @ right])
    yield
    layer.set_weights([table])


@pytest.mark.usefixtures("low_rank")
def test_two_factors_of_the_highest_rank_that_fits_come_next(fit, attempts, wide):
    choice = fit(REST + 7000, corpus=["w1 w2"])  # 129 words, not all that the texts have

    assert size_steps.ranks(wide.model) == [64, 32]  # 64 takes more here than no factors
    assert attempts.tried[-1] == (INT8, INT4, 32, NUM_WORDS)
    assert choice.rank == models.config_of(choice.model).embedding_size == 32


def test_fewer_words_come_before_two_factors_that_change_the_answers_more(fit, attempts, caplog):
    attempts.drops = {INT4: 0.2}
    with caplog.at_level("INFO"):
        fit(REST + TABLE * IN_4_BITS - 1, or_nearest=True)

    told = [line for line in caplog.messages if "before it is rounded" in line]
    assert [line.rpartition(": ")[2] for line in told][1] == "no other answer"

    (words,) = {tried[3] for tried in attempts.tried} - {NUM_WORDS, attempts.tried[-1][3]}
    ways = [tried[2:] for tried in attempts.tried if tried[:2] == (INT8, INT4)]
    assert ways[:2] == [(None, words), (32, NUM_WORDS)]


@pytest.mark.parametrize(("of_words", "rank"), [(12.9, 32), (13.1, None)])
def test_fewer_words_come_first_from_3_db_on(fit, attempts, monkeypatch, of_words, rank):
    decibels = iter([10.0, of_words])
    compared = types.SimpleNamespace
    monkeypatch.setattr(sizing.agreement, "compare", lambda *_: compared(sqnr_db=next(decibels)))

    assert fit(REST + TABLE * IN_4_BITS - 1).rank == rank


def test_of_a_model_that_answers_for_tokens_factors_come_first(fit, attempts, monkeypatch):
    monkeypatch.setattr(type(heads.HEADS["sequence"]), "per_token", True)

    fit(REST + TABLE * IN_4_BITS - 1)  # where fewer words change no answer

    assert attempts.tried[-1] == (INT8, INT4, 32, NUM_WORDS)


def test_words_that_no_training_text_has_go_last(fit, attempts):
    choice = fit(REST + 3500, corpus=["w1 w2"])

    assert attempts.tried[-1][:3] == (INT8, INT4, None)
    assert choice.step.fewer_words
    assert choice.num_words == models.config_of(choice.model).vocab_size < NUM_WORDS
    assert choice.coverage.num_changed > 0
    assert choice.keeps


def test_what_cannot_be_had_is_refused_with_the_smallest_which_may_be_written(
    fit, attempts, tmp_path
):
    file = tmp_path / "out" / "model.tflite"
    with pytest.raises(
        errors.ParityError, match=r"size_mb: expected .* 0\.09\d+ MB and 1.000 at the nearest"
    ):
        fit(20_000)

    (tried,) = attempts.tried
    assert tried[:3] == (INT4, INT4, 32)
    assert not file.exists()
    assert not fit(20_000, or_nearest=True).keeps and file.is_file()


def test_of_files_that_fit_and_lose_too_much_the_most_accurate_is_the_nearest(fit, attempts):
    attempts.drops = {INT8: 0.3, INT4: 0.2}
    choice = fit(REST + TABLE + 1, or_nearest=True)

    assert not choice.keeps
    assert choice.file_metric == 0.8
    assert len(attempts.tried) > 2


def test_nothing_is_written_where_every_file_is_beyond_its_bounds(fit, attempts):
    attempts.refused = {INT8, INT4}

    with pytest.raises(errors.ParityError, match="no file that answers like its model"):
        fit(REST + TABLE + 1, or_nearest=True)


@pytest.fixture
def only_step(monkeypatch):
    """Leaves one step to try: a table in 4 bits and two factors, fewer words."""
    monkeypatch.setattr(sizing, "STEPS", sizing.STEPS[4:5])


def test_words_that_the_development_texts_need_are_not_left_out(fit, only_step, tmp_path):
    with pytest.raises(errors.ParityError, match=r"\(7 words, rank 32\): .*, too large"):
        fit(10_000, corpus=["w1 w2"], max_drop=0.1)

    assert not (tmp_path / "out" / "model.tflite").exists()


def test_a_table_of_4_bits_two_factors_and_fewer_words_passes_the_guard(fit, only_step, tmp_path):
    choice = fit(10_000, max_drop=0.9, or_nearest=True)
    card, folder = choice.manifest, tmp_path / "out"

    words = read_vocab(folder / "vocab.txt")
    assert (choice.rank, choice.num_words) == (32, len(words))
    assert len(words) < NUM_WORDS
    assert (card.quantization, card.quantized_layers) == (INT8, {"word_embeddings": INT4})
    assert card.parity is not None and card.parity.inputs == "real"
    assert card.model.size_bytes == (folder / "model.tflite").stat().st_size
    assert choice.file_metric == card.parity.file_metrics["accuracy"]


def test_the_largest_error_of_one_text_refuses_nothing(fit, only_step, monkeypatch):
    for name in (INT8, INT4):
        offered = quantize.quantization(name)
        bounds = dataclasses.replace(offered.bounds, max_error=1e-9)
        monkeypatch.setitem(quantize._BY_NAME, name, dataclasses.replace(offered, bounds=bounds))
    parity = fit(10_000, max_drop=0.9, or_nearest=True).manifest.parity
    assert parity is not None and 1e-9 * parity.output_rms < parity.max_abs_error


@pytest.mark.parametrize(("change", "is_written"), [(-0.009, True), (-0.011, False)])
def test_a_goal_shrinks_the_table_alone_and_where_a_loss_of_a_point_is_ruled_out(
    change, is_written, fit, attempts, monkeypatch, tmp_path
):
    monkeypatch.setattr(sizing.analysis, "least_change", lambda *_: change)
    size, file = REST + NUM_WORDS * 32 + 32 * WIDTH + 1, tmp_path / "out" / "model.tflite"
    if is_written:
        choice = fit(size, corpus=["w1 w2"], surely=True)
        assert choice.keeps and (choice.rank, choice.num_words) != (None, NUM_WORDS)
        assert file.is_file()
    else:
        with pytest.raises(
            errors.ParityError, match=r"(?s)the table costs 0\.01.*may lose too much"
        ):
            fit(size, corpus=["w1 w2"], surely=True)
        assert not file.exists()
    assert {tried[0] for tried in attempts.tried} == {INT8}  # never all in 4 bits


def test_a_goal_that_the_file_keeps_as_it_is_changes_nothing(fit, attempts):
    choice = fit(REST + TABLE + 1, surely=True)
    assert (choice.keeps, choice.num_words) == (True, NUM_WORDS)


def test_a_model_near_chance_is_refused_before_anything_is_tried(wide, requested, attempts):
    labels = (wide.texts.labels + np.arange(len(wide.texts.labels))) % 3
    others = dataclasses.replace(wide.texts, labels=labels.astype(np.int32))

    def by_chance(model, tokenizer):
        request = requested(model, tokenizer)
        check_on = dataclasses.replace(request.check_on, labels=others.labels)
        return request.replace(texts=others, check_on=check_on)

    with pytest.raises(errors.StudentError):
        export.fit_size(
            by_chance, wide.model, read_tokenizer(wide.vocab_file), size_mb=1, corpus=["w1"]
        )
    assert not attempts.tried


def test_a_table_in_one_piece_loses_words_where_it_has_no_two_factors(fit, attempts, monkeypatch):
    monkeypatch.setattr(sizing.size_steps, "ranks", lambda model, **_: [None])
    choice = fit(REST + 1500, corpus=["w1 w2"])

    assert (choice.rank, choice.step.fewer_words) == (None, True)
    assert attempts.tried[-1][:3] == (INT8, INT4, None)


@pytest.mark.parametrize(("max_drop", "allowed"), [(0.01, None), (0.1, 0.1)])
def test_a_drop_that_is_asked_for_is_allowed_each_file(max_drop, allowed, fit, attempts):
    fit(REST + TABLE + 1, max_drop=max_drop)
    assert attempts.allowed == {allowed}


def without_task(request):
    return request.replace(task=None)


def without_labels(request):
    return request.replace(check_on=dataclasses.replace(request.check_on, labels=None))


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (None, {"size_mb": 0}, errors.ConfigError, "size_mb: expected a size above 0 MB"),
        *(
            (None, {"max_drop": drop}, errors.ConfigError, "max_drop: expected a drop from 0 to 1")
            for drop in (math.nan, -0.01, 5)
        ),
        (without_task, {}, errors.DataError, "size_mb: expected labelled texts"),
        (without_labels, {}, errors.DataError, "received texts without labels"),
    ],
)
def test_what_no_size_can_be_kept_of_is_refused_before_anything_is_tried(
    change, options, error, message, wide, requested, attempts
):
    def request(*parts):
        return requested(*parts) if change is None else change(requested(*parts))

    options = {"size_mb": 1, "corpus": ["w1"], **options}
    with pytest.raises(error, match=message):
        export.fit_size(request, wide.model, read_tokenizer(wide.vocab_file), **options)
    assert not attempts.tried


def test_a_model_with_ranges_of_its_own_is_refused(wide, requested):
    model = compress.quantize_aware(wide.model)
    with pytest.raises(errors.ConfigError, match="model of size_mb: expected float weights"):
        export.fit_size(requested, model, read_tokenizer(wide.vocab_file), size_mb=1, corpus=["w1"])
