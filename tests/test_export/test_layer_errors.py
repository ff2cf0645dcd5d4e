"""Layer errors: the layer that goes wrong is named, even behind an outlier."""

import math

import numpy as np
import pytest

from export.checking import layer_errors
from export.checking.layer_errors import LayerError
from tfdistill import errors
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import editing

LAYERS = frozenset({"layer_0_key", "layer_0_query", "layer_0_scores", "norm"})


def names_of(toy):
    return [layer.name for layer in toy.model.layers]


@pytest.fixture(scope="module")
def broken(exported, tmp_path_factory):
    """The float32 file, and a copy with the weights of layer_0_intermediate at zero."""
    source = exported("float32").path
    target = tmp_path_factory.mktemp("broken") / "model.tflite"
    model = editing.read(source)
    for graph in model.subgraphs:
        for operator in graph.operators:
            output = graph.tensors[operator.outputs[0]].name.decode()
            if layer_errors.layer_of(output, {"layer_0_intermediate"}):
                model.buffers[graph.tensors[operator.inputs[1]].buffer].data[:] = 0
    editing.write(model, target)
    return source, target


def test_a_layer_that_lost_its_weights_is_the_one_that_adds_the_error(broken, toy):
    layers = layer_errors.layer_errors(*broken, toy.encoded, names_of(toy))

    order = [error.layer for error in layers]
    some = ["word_embeddings", "layer_0_query", "layer_0_output", "layer_1_output", "pooler"]
    assert [layer for layer in order if layer in some] == some and len(order) == len(set(order))
    by_name = dict(zip(order, layers, strict=True))
    first, second = layer_errors.culprits(layers, share=0.3)
    assert (first, second) == ("layer_0_intermediate", "layer_0_intermediate_activation")
    assert by_name["layer_0_intermediate"].noise > 0.5
    # Before it nothing differs; behind it everything does, but it is not their doing.
    for before in ("word_embeddings", "layer_0_query", "layer_0_attention_layer_norm"):
        assert (by_name[before].sqnr_db, by_name[before].introduced) == (None, 0.0)
    assert by_name["layer_1_value"].sqnr_db < 20
    assert by_name["layer_1_value"].introduced < 0.5 * by_name["layer_0_intermediate"].introduced


def test_int8_files_are_compared_with_float_ones_converted_at_another_time(exported, toy):
    files = exported("float32").path, exported("dynamic_wi8_afp32").path
    layers = {e.layer: e for e in layer_errors.layer_errors(*files, toy.encoded, names_of(toy))}

    assert 20 < layers["pooler"].sqnr_db < 50
    assert 20 < layers["word_embeddings"].sqnr_db < 50  # its int8 rows, made floats again
    assert max(error.noise for error in layers.values()) < 0.05


def test_noise_and_ratio_are_those_of_the_formula(rng):
    exact = rng.normal(size=(3, 5, 4)).astype(np.float32)
    rough = exact + rng.normal(size=exact.shape).astype(np.float32) * 0.3
    ratio, noise = layer_errors.compare(exact, rough)

    flat, error = exact.reshape(-1, 4).astype(float), (exact - rough).reshape(-1, 4).astype(float)
    signals = [float(np.sum(flat[:, c] ** 2)) for c in range(4)]
    parts = [
        min(1.0, float(np.sum(error[:, c] ** 2)) / max(signals[c], float(np.median(signals))))
        for c in range(4)
    ]
    assert noise == pytest.approx(np.mean(parts), rel=1e-5)  # the error itself is float32
    assert ratio == pytest.approx(10 * math.log10(sum(signals) / np.sum(error**2)), rel=1e-5)
    assert layer_errors.compare(exact, exact) == (None, 0.0)
    assert layer_errors.compare(exact, exact * np.nan) == (-math.inf, 1.0)
    assert layer_errors.compare(exact * 0, exact) == (-math.inf, 1.0)


@pytest.mark.parametrize(
    "tensor, layer",
    [
        ("m/norm/add_1;m/layer_0_key/MatMul;m/layer_0_key/BiasAdd", "layer_0_key"),
        ("m/norm/mul;m/layer_0_query/BiasAdd;m/layer_0_scores/mul", "layer_0_query"),
        ("model/norm/Square;model/norm/sub", "norm"),
        ("tfl.dequantize", None),
        ("model/layer_0_key_extra/MatMul", None),
    ],
)
def test_a_tensor_belongs_to_the_layer_whose_product_it_is(tensor, layer):
    assert layer_errors.layer_of(tensor, LAYERS) == layer


def test_culprits_are_the_fewest_layers_that_explain_the_share():
    layers = [
        LayerError("a", 30.0, 0.1, 0.1, ("b",)),
        LayerError("b", 10.0, 0.5, 0.4, ("c", "d")),
        LayerError("c", 5.0, 0.9, 0.5, ()),
        LayerError("d", 5.0, 0.9, 0.0, ()),
    ]

    assert layer_errors.culprits(layers) == ("c",)
    assert layer_errors.culprits(layers, share=0.9) == ("c", "b", "d")
    assert layer_errors.culprits(layers, share=1.0) == ("c", "b", "d", "a")
    assert layer_errors.culprits(layers[3:]) == ()


def test_examples_that_fit_no_signature_and_files_of_different_models_are_errors(
    exported, tmp_path, toy
):
    source, other = exported("float32").path, tmp_path / "other.tflite"
    ids = np.arange(5, 25, dtype=np.int32)
    long = EncodedExamples(ids, np.array([0, 20]), np.zeros(20, np.uint8))
    with pytest.raises(errors.DataError, match="some of at most 16 tokens"):
        layer_errors.layer_errors(source, source, long, names_of(toy))
    model = editing.read(source)
    for tensor in [tensor for graph in model.subgraphs for tensor in graph.tensors]:
        tensor.name = b"other_" + tensor.name
    editing.write(model, other)
    with pytest.raises(errors.ExportError, match="tensors of the same names"):
        layer_errors.layer_errors(source, other, toy.encoded, [])
