"""Quantizations by the litert-quantizer: what is in their files, and how they answer."""

import dataclasses
import types

import numpy as np
import pytest

import export
from export.checking.outputs import file_outputs
from export.conversion import edge_quantizer, lookup, quantize, recipe
from tfdistill import errors, manifest, models
from tfdistill.tflite import TfliteModel, agreement, editing

pytestmark = pytest.mark.slow

OUTPUT_LAYER = (32, 64)  # the shape of a feed-forward output in the file
# What the toy reaches, seeded: 34, 31, 21, 9.9 and 11.9 dB. Rows of 32 random numbers are the
# worst case of 4 bits (a trained student of width 192 keeps 24 to 28 dB).
TIGHT = {
    "weight_only_wi8_afp32": quantize.Bounds(0.2, 0.03, 29.0, 0.97, 0.02),
    "dynamic_wi8_afp32": quantize.Bounds(0.3, 0.05, 26.0, 0.97, 0.02),
    "static_wi8_ai8": quantize.Bounds(0.7, 0.12, 16.0, 0.93, 0.05),
    "dynamic_wi4_afp32_block32": quantize.Bounds(1.3, 0.32, 8.5, 0.85, 0.15),
    "dynamic_wi4_afp32": quantize.Bounds(1.3, 0.32, 8.5, 0.85, 0.15),
}
# One with int8 activations, one with scales of blocks and one that is made floats again: the
# others differ from these in numbers, and int8 alone is that of test_tflite.py.
USUAL = ("weight_only_wi8_afp32", "static_wi8_ai8", "dynamic_wi4_afp32_block32")
NAMES = [pytest.param(name, marks=[] if name in USUAL else pytest.mark.thorough) for name in TIGHT]
MATRICES = 23_808  # elements in matrices of at least 1,024


@pytest.fixture(scope="module")
def files_of(toy, tmp_path_factory):
    """Exports the toy, calibrated on its own examples, once for each choice."""
    done = {}

    def get(name, layers=None):
        key = name, str(layers)
        if key not in done:
            path = tmp_path_factory.mktemp(name) / "model.tflite"
            options = {"quantize": name, "layers": layers}
            # Among 120 examples a metric may fall further than among thousands.
            tight = TIGHT.get(name, TIGHT["static_wi8_ai8"])
            coarse = name.startswith("dynamic_wi4")
            options["bounds"] = tight.as_dict() if coarse else {"metric_drop": tight.metric_drop}
            if quantize.quantization(name).needs_calibration:
                options |= {"calibrate_on": toy.encoded, "num_calibration": 64, "seed": 5}
            done[key] = path, toy.export(path, **options)
        return done[key]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_the_file_answers_like_the_model(name, toy, files_of):
    assert agreement.violations(toy.measured(files_of(name)[0]), TIGHT[name]) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_file_breaks_every_bound(name, toy, files_of, tmp_path):
    model = editing.read(files_of(name)[0])
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            data = editing.constant(model, tensor)
            if tuple(tensor.shape) == OUTPUT_LAYER and data is not None:
                model.buffers[tensor.buffer].data = np.zeros_like(data)
    editing.write(model, tmp_path / "broken.tflite")
    damaged = toy.measured(tmp_path / "broken.tflite")
    for bounds in (TIGHT[name], quantize.quantization(name).bounds):
        lines = agreement.violations(damaged, bounds)
        for quantity in ("max error", "mean error", "SQNR", "argmax"):
            assert any(line.startswith(quantity) for line in lines), (quantity, lines)


@pytest.mark.parametrize("name", NAMES)
def test_every_matrix_is_stored_in_few_bits_also_the_table_of_words(name, files_of):
    value = quantize.quantization(name)
    stored = export.inspect(files_of(name)[0]).weight_bytes
    kind = f"int{value.weight_bits}"
    assert (
        MATRICES * value.weight_bits / 8 <= stored[kind] < MATRICES * value.weight_bits / 8 + 2000
    )
    assert stored.get("float16", 0) == (MATRICES // 32 * 2 if value.block else 0)
    assert stored.get("float32", 0) <= 7000  # biases, positions and scales


def test_a_table_of_one_scale_is_gathered_and_a_small_one_stays_in_floats(exported):
    model = editing.read(exported("dynamic_wi8_afp32").path)
    for graph in model.subgraphs:
        names = [editing.name_of(model, operator) for operator in graph.operators]
        tables = [
            graph.tensors[operator.inputs[0]]
            for name, operator in zip(names, graph.operators, strict=True)
            if name == "GATHER"
        ]
        rows = {tuple(table.shape): editing.dtype_of(table) for table in tables}
        assert rows == {(200, 32): "int8", (2, 32): "float32"}
        assert [len(table.quantization.scale) for table in tables if table.shape[0] == 200] == [1]
        assert "EMBEDDING_LOOKUP" not in names


@pytest.mark.parametrize(
    ("layers", "in_float"),
    [(None, {}), ({"layer_0_intermediate*": "float32"}, {"FULLY_CONNECTED": 1, "GELU": 1})],
)
def test_static_files_compute_in_integers_but_for_chosen_layers(layers, in_float, files_of):
    path, card = files_of("static_wi8_ai8", layers)
    for graph in export.inspect(path).graphs:
        assert graph.float_operators == in_float
        assert layers or graph.operators["DEQUANTIZE"] == graph.operators["CAST"] == 1
    assert card.calibration == manifest.Calibration(num_examples=64, seed=5)


def test_layers_take_the_quantization_of_their_own_and_no_other(toy, files_of):
    layers = {"layer_0_*": "float32", "word_embeddings": "dynamic_wi8_afp32"}
    path, card = files_of("dynamic_wi4_afp32", layers)
    assert (card.quantized_layers, card.calibration) == (layers, None)
    assert manifest.read_manifest(path) == card
    stored = export.inspect(path).weight_bytes
    block = 4 * 32 * 32 + 2 * 32 * 64  # the matrices of a layer
    assert stored["int8"] == 200 * 32
    assert stored["int4"] == (block + 32 * 32) / 2  # layer_1 and the pooler
    assert stored["float32"] >= block * 4
    kernel = toy.model.get_layer("layer_0_output").kernel.numpy().T
    model = editing.read(path)
    in_float = [
        editing.constant(model, tensor)
        for tensor in model.subgraphs[0].tensors
        if tuple(tensor.shape) == kernel.shape
    ]
    assert any(data is not None and data.tobytes() == kernel.tobytes() for data in in_float)


def test_the_bounds_of_the_coarsest_layer_count(toy):
    layers, bounds = {"pooler": "dynamic_wi4_afp32"}, {"max_error": 7.0}
    coarse = quantize.quantization("dynamic_wi4_afp32").bounds
    plan = toy.plan(quantize="float32", layers=layers, bounds=bounds)
    assert plan.bounds == coarse.replace(bounds)


def test_static_quantization_takes_examples_and_no_bilstm(toy, tmp_path):
    with pytest.raises(errors.DataError):
        toy.export(tmp_path / "m.tflite", quantize="static_wi8_ai8")
    sizes = {"embedding_size": 8, "hidden_size": 8, "dense_size": 8, "vocab_size": 200}
    model = models.build_classifier(models.BiLstmConfig(**sizes, pair_encoding="siamese"), 3)
    options = {"quantize": "static_wi8_ai8", "calibrate_on": toy.encoded, "lengths": (16,)}
    with pytest.raises(errors.ConfigError, match=r"a BiLSTM.*Take dynamic_wi8_afp32"):
        export.to_tflite(model, tmp_path / "m.tflite", **options)


def test_lookups_give_the_same_answers_bit_for_bit(toy, exported, tmp_path):
    model = editing.read(exported("float32").path)
    replaced = lookup.use_lookups(model, lambda table, name: table.shape[0] == 200)
    assert replaced == 2  # one for each signature; the token types stay
    editing.write(model, tmp_path / "m.tflite")
    graph = export.inspect(tmp_path / "m.tflite").signatures["len8"]
    assert (graph.operators["EMBEDDING_LOOKUP"], graph.operators["GATHER"]) == (1, 1)
    few = toy.encoded.select(range(30))
    np.testing.assert_array_equal(
        file_outputs(TfliteModel(tmp_path / "m.tflite"), few),
        file_outputs(TfliteModel(exported("float32").path), few),
    )


INT8, FLOAT32 = (quantize.quantization(name) for name in ("dynamic_wi8_afp32", "float32"))


def test_a_layer_that_the_file_does_not_name_is_refused(exported):
    model = editing.read(exported("float32").path)
    with pytest.raises(errors.ExportError, match=r"none of layer_7_query.*Leave them out"):
        recipe.rules(model, INT8, {"layer_7_query": FLOAT32}, ["layer_7_query", "classifier"])


def renamed(path, more):
    """A file whose product of the keys has another name in front of its own."""
    model = editing.read(path)
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            product = b"layer_0_key/MatMul"
            tensor.name = tensor.name.replace(product, more + b";" + product)
    return model


def test_layers_in_one_operator_must_agree_and_those_that_share_a_bias_need_not(exported):
    """Equal biases are one constant, and its operators have the names of all their layers."""
    source, alone = exported("float32").path, {"layer_0_query": FLOAT32}
    matrices = ["layer_0_query", "layer_0_key", "classifier"]
    model = renamed(source, b"layer_0_query/MatMul")
    with pytest.raises(errors.ExportError, match=r"in one operator.*layer_0_key: dynamic_wi8"):
        recipe.rules(model, INT8, alone, matrices)
    assert recipe.rules(model, INT8, {**alone, "layer_0_key": FLOAT32}, matrices)
    assert recipe.rules(renamed(source, b"layer_0_query/BiasAdd"), INT8, alone, matrices)


def test_ranges_are_joined_across_signatures():
    def graph(prefix, times=1):
        tensors = [types.SimpleNamespace(name=f"{prefix}{i}".encode()) for i in range(3)]
        operators = [types.SimpleNamespace(inputs=[0, -1], outputs=[1])] * times
        return types.SimpleNamespace(tensors=tensors, operators=operators)

    def share(*graphs):
        edge_quantizer.share_ranges(types.SimpleNamespace(subgraphs=graphs), ranges)

    least_and_most = {"a0": (-1.0, 2.0), "b0": (-3.0, 1.0), "b1": (0.0, 5.0)}
    ranges = {
        name: {"min": np.array(least), "max": np.array(most)}
        for name, (least, most) in least_and_most.items()
    }
    share(graph("a"), graph("b"))
    joined = {name: (float(each["min"]), float(each["max"])) for name, each in ranges.items()}
    assert joined == {"a0": (-3, 2), "b0": (-3, 2), "a1": (0, 5), "b1": (0, 5)}
    with pytest.raises(errors.ExportError, match="Export one length at a time"):
        share(graph("a"), graph("b", times=2))


INT4 = [
    pytest.param("dynamic_wi4_afp32", marks=pytest.mark.thorough),  # a block as wide as its row
    "dynamic_wi4_afp32_block32",
]


def _near_zero(model, size):
    """The model with a row of such numbers in the word table and an output in each kernel."""
    model = models.with_policy(model, "float32")
    for layer in model.layers:
        matrices = [weight for weight in layer.weights if len(weight.shape) == 2]
        for weight in matrices:
            value = weight.numpy()
            line = value[2:3] if "embeddings" in layer.name else value[:, 2:3]
            line[...] = size * np.sign(line)
            weight.assign(value)
    return model


@pytest.mark.parametrize("size", [0, 1e-7, pytest.param(1e-40, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "quantize",
    ["static_wi8_ai8", *INT4, pytest.param("dynamic_wi8_afp32", marks=pytest.mark.thorough)],
)
def test_rows_near_0_are_exported_next_to_ordinary_ones(toy, tmp_path, quantize, size):
    unlabelled = dataclasses.replace(toy.encoded, labels=None)
    more = {"calibrate_on": unlabelled} if quantize.startswith("static") else {}
    near_zero = dataclasses.replace(toy, model=_near_zero(toy.model, size), encoded=unlabelled)
    card = near_zero.export(
        tmp_path / "m.tflite", quantize=quantize, lengths=(16,), texts=None, **more
    )
    # What the same format keeps of the toy's ordinary rows.
    assert card.parity.sqnr_db > TIGHT[quantize].sqnr_db - 6


def test_a_bias_that_a_row_of_zeros_cannot_hold_names_a_format_that_can(toy, tmp_path):
    model = _near_zero(toy.model, 0)
    kernel, bias = model.get_layer("layer_0_intermediate").get_weights()
    bias[2] = 1e4
    model.get_layer("layer_0_intermediate").set_weights([kernel, bias])
    options = {"quantize": "static_wi8_ai8", "calibrate_on": toy.encoded, "lengths": (16,)}
    with pytest.raises(errors.ParityError, match=r"int32 .*Take dynamic_wi8_afp32, which keeps"):
        export.to_tflite(model, tmp_path / "m.tflite", **options)


@pytest.mark.parametrize("quantize", INT4)
def test_a_scale_of_0_is_refused_where_the_weights_are_not_0(toy, tmp_path, quantize, monkeypatch):
    honest = edge_quantizer._filled

    def faulty(*arguments):
        scales = honest(*arguments)
        scales[7] = 0  # of a row, or a block, of other numbers
        return scales

    monkeypatch.setattr(edge_quantizer, "_filled", faulty)
    model = _near_zero(toy.model, 0)
    with pytest.raises(errors.ParityError, match="scales above 0"):
        export.to_tflite(model, tmp_path / "m.tflite", quantize=quantize, lengths=(16,))
    assert not list(tmp_path.iterdir())
