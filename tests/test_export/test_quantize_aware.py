"""Files of quantization-aware, pruned and clustered models."""

import copy
import re
import shutil
import types
import zlib
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import export
from export.checking import carried, pairing, ranges, weights
from export.checking.outputs import file_outputs, model_logits
from export.conversion import convert
from tfdistill import compress, distillers, errors, models, training
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import TfliteModel, editing

LENGTH = 16
CONFIG = models.EncoderConfig(
    family="tinybert",
    num_layers=1,
    hidden_size=32,
    num_heads=4,
    intermediate_size=64,
    vocab_size=200,
    max_positions=20,
    hidden_act="relu",
    dropout=0.0,
    attention_dropout=0.0,
)


def batch(count, seed):
    random = np.random.default_rng(seed)
    ids = random.integers(5, CONFIG.vocab_size, (count, LENGTH))
    mask = np.arange(LENGTH) < random.integers(3, LENGTH + 1, count)[:, None]
    arrays = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": 0 * ids}
    return {name: tf.constant(array, tf.int32) for name, array in arrays.items()}


def examples(count, seed):
    features = {name: tensor.numpy() for name, tensor in batch(count, seed).items()}
    rows = features["attention_mask"] > 0
    offsets = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int64)
    types = features["token_type_ids"][rows].astype(np.uint8)
    return EncodedExamples(features["input_ids"][rows], offsets, types)


@pytest.fixture(scope="module")
def student(lively):
    model = lively(models.build_classifier(CONFIG, 3))
    kernel, bias = model.get_layer("classifier").get_weights()
    # No class is the usual one: the same class by chance is a third.
    bias -= model(batch(300, 7)).numpy().mean(axis=0)
    model.get_layer("classifier").set_weights([kernel, bias])
    return model


def written(model, path, **options):
    anything = {"max_error": 99, "mean_error": 99, "sqnr_db": -99, "argmax_agreement": 0}
    options = {"lengths": (LENGTH,), "check_on": examples(200, 1), "bounds": anything, **options}
    return export.to_tflite(model, path, **options).parity


@pytest.mark.slow
def test_a_student_that_collapses_under_int8_is_recovered_by_quantization_aware_training(
    student, tmp_path
):
    """Its mask is that of most BERT code: 256 steps from -10,000 leave nothing of the scores."""
    collapsing = models.with_policy(student, "float32")
    collapsing.get_layer("attention_mask_scores").value = -1e4
    answers = [model(batch(20, 2)).numpy() for model in (collapsing, student)]
    np.testing.assert_allclose(*answers, rtol=1e-5, atol=1e-5)
    calibration = {"quantize": "static_wi8_ai8", "calibrate_on": examples(200, 3)}
    after_training = written(collapsing, tmp_path / "after.tflite", **calibration)

    aware = compress.quantize_aware(collapsing)
    steps = 60
    distiller = distillers.LogitDistiller(collapsing, aware, objective="logit_mse")
    distiller.compile(training.adamw(1e-3, total_steps=steps, schedule="linear"))
    step = tf.function(distiller.train_step, reduce_retracing=True)
    for index in range(steps):
        step((batch(32, 100 + index),))
    written(aware, tmp_path / "aware.tflite", quantize="static_wi8_ai8")

    # Measured 0.82 and 0.95, of 200 examples.
    assert after_training.argmax_agreement < 0.87
    assert _against(collapsing, tmp_path / "aware.tflite") > 0.92


def _against(model, path):
    """The share of examples that a file answers as another model does."""
    encoded = examples(200, 1)
    file = TfliteModel(path)
    said = model_logits(model, encoded, file.lengths), file_outputs(file, encoded)
    return float(np.mean(said[0].argmax(axis=1) == said[1].argmax(axis=1)))


@pytest.fixture(scope="module")
def aware(student):
    model = compress.quantize_aware(student)
    compress.observe(model, [batch(32, seed) for seed in range(4)])
    return model


@pytest.fixture(scope="module")
def exported(aware, tmp_path_factory):
    """The file, the float32 file that it was checked against, and their agreement."""
    folder = tmp_path_factory.mktemp("aware")

    def run(todo, **_):
        convert.run(todo)
        shutil.copyfile(todo.float_file, folder / "float32.tflite")

    with mock.patch.object(convert, "run_in_child", run):
        parity = written(aware, folder / "model.tflite", quantize="static_wi8_ai8")
    return types.SimpleNamespace(
        file=folder / "model.tflite", float_file=folder / "float32.tflite", parity=parity
    )


def test_a_quantization_aware_model_needs_no_calibration(exported, student):
    parity = exported.parity

    # The file rounds where the model does; measured 28 dB. Ranges that are lost leave 0.
    assert parity.sqnr_db > 18 and parity.argmax_agreement > 0.9
    assert _against(student, exported.file) > 0.9
    (graph,) = export.inspect(exported.file).graphs
    assert not {"FULLY_CONNECTED", "BATCH_MATMUL"} & set(graph.float_operators)


def _faults(exported, change):
    """What the checks find between the float32 file and the file with a change."""
    float_model, model = (editing.read(path) for path in (exported.float_file, exported.file))
    change(model)
    for tree in (float_model, model):
        carried.split_activations(tree)
    places = carried.remove(float_model)
    pairs = pairing.pair(float_model, model, reshapes_move=True)
    faults = [fault for pair in pairs for fault in pair.faults]
    if not faults:
        faults = weights.check(float_model, model, pairs, carried=True)
        faults += carried.check(places, pairs)
        faults += [fault for pair in pairs for fault in ranges.uneven(pair)]
    return faults


def _operators(tree, name):
    graph = tree.subgraphs[0]
    return graph, [o for o in graph.operators if editing.name_of(tree, o) == name]


def _scale(name, which, factor=1.0, point=0, last=False):
    """Changes how the first or last result or input of a kind of operator is stored."""

    def change(tree):
        graph, operators = _operators(tree, name)
        tensors = [graph.tensors[getattr(operator, which)[0]] for operator in operators]
        stored = [tensor for tensor in tensors if tensor.quantization.scale is not None]
        quantization = copy.deepcopy(stored[-last].quantization)
        quantization.scale, quantization.zeroPoint = (
            [factor * quantization.scale[0]],
            [quantization.zeroPoint[0] + point],
        )
        stored[-last].quantization = quantization

    return change


def _exchange_rows(tree):
    graph, (operator, *_) = _operators(tree, "FULLY_CONNECTED")
    tensor = graph.tensors[operator.inputs[1]]
    rows = np.array(tree.buffers[tensor.buffer].data).reshape(tensor.shape)
    tree.buffers[tensor.buffer].data = rows[::-1].reshape(-1).copy()


def _without_activation(tree):
    _, operators = _operators(tree, "FULLY_CONNECTED")
    for operator in operators:
        operator.builtinOptions.fusedActivationFunction = 0


def _keys_for_queries(tree):
    _, (operator, *_) = _operators(tree, "BATCH_MATMUL")
    operator.inputs = list(operator.inputs)[::-1]


CHANGES = {
    "nothing": (lambda tree: None, None),
    "wide": (_scale("ADD", "outputs", 1.1), "rounding of input"),
    "shifted": (_scale("BATCH_MATMUL", "inputs", point=1), "rounding of input|steps of"),
    "moved numbers": (_scale("TRANSPOSE", "outputs", 0.5), "rounding of|steps of"),
    "output": (_scale("DEQUANTIZE", "inputs", 2.0, last=True), "of the output|within half a step"),
    "rows": (_exchange_rows, "within half a step"),
    "activation": (_without_activation, "operators"),
    "operands": (_keys_for_queries, "input 0"),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_an_int8_file_that_differs_from_its_quantization_aware_model_is_refused(
    exported, change, message
):
    faults = _faults(exported, change)
    assert bool(faults) == bool(message), faults
    assert message is None or re.search(message, faults[0])


def test_other_quantizations_and_ranges_that_are_missing_say_what_to_do(aware, student, tmp_path):
    with pytest.raises(
        errors.ConfigError, match=r"compress\.strip.* a copy of its folder student/hf"
    ):
        written(aware, tmp_path / "model.tflite", quantize="dynamic_wi8_afp32")
    with pytest.raises(errors.ConfigError):
        fresh = compress.quantize_aware(student)
        written(fresh, tmp_path / "model.tflite", quantize="static_wi8_ai8")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.thorough
def test_pruned_and_clustered_files_are_small_once_compressed(student, aware, tmp_path):
    def zipped(model, quantize):
        path = tmp_path / "model.tflite"
        written(model, path, quantize=quantize, overwrite=True)
        return len(zlib.compress(path.read_bytes(), 9))

    layers = ("layer_*", "pooler")
    wrapped = compress.prune(student, sparsity=0.75, total_steps=1, end=1.0, layers=layers)
    distiller = distillers.LogitDistiller(student, wrapped, objective="logit_mse")
    distiller.compile(training.adamw(1e-6))
    distiller.train_step((batch(8, 1),))
    pruned = compress.strip(wrapped)
    clustered = compress.quantize_aware(
        compress.strip(compress.cluster(student, clusters=8, layers=layers))
    )
    compress.observe(clustered, [batch(32, 1)])

    # 9,216 int8 weights, noise before: three of four zeros take some 2.9 bits each, eight numbers
    # at most 3. The converter's scales for each row would make eight numbers of every row's own;
    # quantization-aware training has one scale a matrix.
    dynamic, static = "dynamic_wi8_afp32", "static_wi8_ai8"
    assert zipped(pruned, dynamic) < zipped(student, dynamic) - 0.4 * 9216
    assert zipped(clustered, static) < zipped(aware, static) - 0.35 * 9216


@pytest.mark.slow
def test_a_file_of_4_bits_loses_nothing_of_a_model_that_was_trained_with_them(lively, tmp_path):
    """Normalizations before a product are rounded with it; activations are while the file runs."""
    plain = lively(models.build_classifier(CONFIG.replace(num_layers=2), 3))
    parity = {}
    for model in (plain, compress.strip(compress.quantize_aware(plain, bits=4))):
        for quantize in ("dynamic_wi4_afp32_block32", "dynamic_wi8_afp32"):
            path = tmp_path / str(len(parity)) / "model.tflite"
            parity[model is plain, quantize] = written(model, path, quantize=quantize).sqnr_db
    before, in_8_bits, after, _ = parity.values()
    assert before < 25 < in_8_bits < after
