"""Faults between a trained model and its file: a part of scripts/export-faults, seeded."""

import dataclasses
import types

import campaign
import networks
import numpy as np
import planted_files
import pytest

from export.checking import pairing, ranges, simulation, structure, weights
from export.conversion.quantize import quantization
from export.model import inputs
from tfdistill.tflite import editing

pytestmark = pytest.mark.slow

FORMATS = ("dynamic_wi8_afp32", "dynamic_wi4_afp32")
# Of each kind those that no outputs show, and one that the fixed bounds of a format let pass.
GRAPH_FAULTS = {
    "one number of one word": "weights",
    "normalisation eps 1e-3": "error",
    "masked tokens seen": "padding",
    "last token of the long signature dropped": "operators: expected those of",
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The campaign on a BERT whose biases and scales all count."""
    network = networks.build("bert", "ordinary", 1)
    return campaign.Campaign(network, tmp_path_factory.mktemp("bert"))


@pytest.mark.spine
@pytest.mark.parametrize("name", [FORMATS[0], pytest.param(FORMATS[1], marks=pytest.mark.thorough)])
def test_an_honest_file_is_written(bert, name):
    outcome = bert.honest(name)
    assert (outcome.written, outcome.message) == (True, "")


@pytest.mark.parametrize("fault", GRAPH_FAULTS)
def test_a_fault_of_the_inference_graph_is_refused(bert, fault):
    outcome = bert.graph_fault(fault, "float32")
    assert not outcome.written
    assert outcome.message.startswith("float32 conversion, ")
    assert GRAPH_FAULTS[fault] in outcome.message


def test_values_that_end_where_no_input_reaches_are_refused(bert):
    outcome = bert.file_fault("an activation that ends at 6", "float32")
    assert not outcome.written
    assert outcome.difference is None  # the outputs are equal
    assert "activations: expected {'minimum': 0} of the model" in outcome.message


@pytest.mark.spine
@pytest.mark.parametrize(
    "number", [0, pytest.param(1, marks=pytest.mark.thorough)], ids=["8 bits", "4 bits"]
)
def test_a_fault_of_the_file_alone_is_refused_and_the_layer_named(bert, number):
    outcomes = []
    for fault in list(planted_files.FILE)[number::4]:
        try:
            outcomes.append(bert.file_fault(fault, FORMATS[number]))
        except campaign.Inapplicable:
            continue
    assert len(outcomes) > 4
    assert [(o.fault, o.quantization) for o in outcomes if o.written] == []
    assert any(o.bounds_alone for o in outcomes)  # what fixed bounds let pass
    assert sum("layer_" in o.message or "embedding" in o.message for o in outcomes) > 2


@pytest.mark.parametrize(
    "faults",
    [
        ("an unseen word's row zeroed", "scale of a block doubled"),
        pytest.param(
            ("two rows exchanged", "one number two steps off", "a row zeroed"),
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["zeros and scales", "rows and numbers"],
)
def test_faults_of_a_word_table_in_4_bits_are_refused_in_a_file_of_8(bert, faults):
    mixed = campaign.FORMATS[-1]
    assert bert.honest(mixed).written
    outcomes = [bert.file_fault(fault, mixed) for fault in faults]
    assert [outcome.fault for outcome in outcomes if outcome.written] == []
    assert any("word_embeddings" in outcome.message for outcome in outcomes)


@pytest.fixture(scope="module")
def factorised(tmp_path_factory):
    """The campaign on a BERT whose word table is in two factors."""
    network = networks.build("factorised", "ordinary", 1)
    return campaign.Campaign(network, tmp_path_factory.mktemp("factorised"))


@pytest.mark.parametrize(
    "fault",
    [
        "one factor of the words scaled",
        pytest.param("two words' rows exchanged", marks=pytest.mark.thorough),
        pytest.param("directions of one factor reversed", marks=pytest.mark.thorough),
    ],
)
def test_faults_of_a_word_table_in_two_factors_are_refused(factorised, fault):
    assert factorised.honest("float32").written
    assert not factorised.graph_fault(fault, "float32").written


def test_probes_fill_the_signature_with_every_position_and_type():
    config = networks.CONFIGS["bert"]
    probes = inputs.probes_of(config, 12)
    assert (probes.lengths == 12).sum() >= inputs.NUM_FILLING
    assert (probes.lengths < 12).any()
    assert set(probes.types.tolist()) == {0, 1}
    assert (probes.ids.min(), probes.ids.max()) == (0, config.vocab_size - 1)


@pytest.fixture(scope="module")
def pairs(bert):
    """The float32 file, the int8 file, and the two paired."""
    for name in ("float32", "dynamic_wi8_afp32"):
        bert.honest(name)
    folder = bert._folder
    models = [editing.read(folder / f"{name}.tflite") for name in ("float32", FORMATS[0])]
    return *models, pairing.pair(*models)


def test_operators_and_constants_are_paired_one_to_one(pairs):
    float_model, model, paired = pairs
    assert [pair.faults for pair in paired] == [(), ()]
    for pair in paired:
        assert len(pair.operations) == len(pair.float_graph.operators)
    assert weights.check(float_model, model, paired) == []


def test_a_range_of_other_data_is_found_and_the_own_one_is_not():
    stored = ranges.Range(0, "x", "ADD", -1.0, 1.0, 2 / 255)
    seen = ranges._Seen()
    ranges._add(seen, np.array([-0.9, 0.5], np.float32), stored)
    assert (seen.outside, seen.count) == (0, 2)
    assert ranges._width(stored, seen, ranges._Seen()) == pytest.approx(2 / 1.4)
    ranges._add(seen, np.array([3.0], np.float32), stored)
    assert (seen.outside, seen.lost) == (1, 4.0)
    wide = dataclasses.replace(stored, least=-64.0, most=64.0, step=128 / 255)
    assert ranges._width(wide, seen, ranges._Seen()) > 8


def test_integers_that_are_made_of_others_may_keep_their_range_and_no_wider_one():
    seen = ranges._Seen()
    stored = ranges.Range(0, "rows", "QUANTIZE", -4.0, 4.0, 8 / 255)
    ranges._add(seen, np.array([-0.5, 0.5], np.float32), stored)
    assert ranges._width(stored, seen) == pytest.approx(8)
    of_table = dataclasses.replace(stored, of_source=8.0)  # rows that no example looks up
    assert ranges._width(of_table, seen) == pytest.approx(1)
    coarse = dataclasses.replace(of_table, least=-32.0, most=32.0, step=64 / 255)
    assert ranges._width(coarse, seen) == pytest.approx(8)


def _stored_with_one_scale(table, step):
    """An int8 table with one scale, and how `rounding` judges it."""
    held = np.clip(np.round(table / step), -127, 127).astype(np.int8)
    scales = weights._Scales(np.full((1, 1), step), np.zeros((1, 1), np.int64), (1, -1))
    return held, lambda stored: weights._integer_fault(table, stored, scales, "int8")


def test_one_row_of_a_table_with_one_scale_may_not_be_cut_off():
    table = np.random.default_rng(0).standard_normal((5000, 16)).astype(np.float32)
    table[7] *= 2 * np.abs(table).max() / np.abs(table[7]).max()
    largest = float(np.abs(table).max())
    held, judge = _stored_with_one_scale(table, largest / 127)
    assert judge(held) is None
    held, judge = _stored_with_one_scale(table, largest / 2 / 127)
    assert "cut off" in judge(held) and "row 7" in judge(held)


def test_the_simulated_file_has_each_constant_once(bert, pairs, tmp_path):
    float_model = editing.read(bert._folder / "float32.tflite")  # it is changed
    _, model, _ = pairs
    before = sum(len(b.data) for b in float_model.buffers if b.data is not None)
    simulation.write(float_model, model, pairing.pair(float_model, model), tmp_path / "rounded")
    after = sum(len(b.data) for b in float_model.buffers if b.data is not None)
    assert 0.9 * before < after < 1.2 * before


def _evidence(model, layers, base, pairs):
    plan = types.SimpleNamespace(
        model=model,
        layers=layers,
        quantization=quantization(base),
        is_float=False,
        quantize_aware=False,
    )
    return types.SimpleNamespace(plan=plan, pairs=pairs)


@pytest.mark.parametrize(
    ("base", "layers", "count"),
    [
        ("dynamic_wi8_afp32", {}, 0),
        ("dynamic_wi8_afp32", {"layer_0_query": "float32"}, 1),
        ("float32", {"layer_0_query": "dynamic_wi8_afp32"}, None),
        ("dynamic_wi4_afp32", {}, None),
    ],
)
def test_a_layer_is_stored_in_the_type_that_was_asked_for(bert, pairs, base, layers, count):
    layers = {layer: quantization(name) for layer, name in layers.items()}
    model = bert._network.model
    faults = structure.wrong_types(_evidence(model, layers, base, pairs[2]))
    assert len(faults) == count if count is not None else len(faults) > 10
    if count == 1:
        assert "layer_0_query" in faults[0] and "int8" in faults[0]


def _static_pair(key, *, first=0.1, after=0.2):
    """A float operator whose output QUANTIZE stores for an operator of integers."""

    def tensor(name, kind, scale=None):
        stored = types.SimpleNamespace(scale=scale and [scale], zeroPoint=[0])
        return types.SimpleNamespace(name=name.encode(), type=kind, quantization=stored)

    def operator(read, written):
        return types.SimpleNamespace(inputs=[read], outputs=[written])

    float32, int8 = 0, 9
    floats = types.SimpleNamespace(
        tensors=[tensor(name, float32) for name in ("in", "square", "mean")],
        operators=[operator(0, 1), operator(1, 2)],
    )
    graph = types.SimpleNamespace(
        tensors=[
            tensor("in", float32),
            tensor("square", float32),
            tensor("square/q", int8, first),
            tensor("mean", int8, after),
        ]
    )
    done = (
        pairing.Operation("square", "MUL", 0, (0,), (1,)),
        pairing.Operation("mean", "SUM", 1, (2,), (3,)),
    )
    return pairing.Pair(key, floats, None, graph, done, (), {2: 1}, {2: 3}, ())


def test_a_range_that_quantize_makes_of_floats_is_judged_by_the_floats():
    stored = ranges.stored_ranges(_static_pair("len8"))
    kinds = [(each.tensor, each.kind, round(each.most, 3)) for each in stored.values()]
    assert sorted(kinds) == [(1, "QUANTIZE", 12.7), (2, "SUM", 25.4)]


@pytest.mark.parametrize(("changed", "count"), [({}, 0), ({"first": 0.11}, 1), ({"after": 0.3}, 1)])
def test_signatures_have_the_same_ranges(changed, count):
    both = [_static_pair("len8"), _static_pair("len16", **changed)]
    assert len(ranges.differing(both)) == count


STATIC = "static_wi8_ai8"


@pytest.mark.parametrize(
    ("name", "fault", "check"),
    [
        (STATIC, "transposed values 1.2 times", "steps handed on"),
        (STATIC, "made as another format", "types of activations"),
        *(
            pytest.param(STATIC, fault, "ranges of the data", marks=pytest.mark.thorough)
            for fault in (
                "one range 1.5 times as wide",
                "integers rounded to 8 times the step",
            )
        ),
        (FORMATS[0], "keys of two signatures exchanged", "signatures"),
        (FORMATS[0], "subgraphs of two signatures exchanged", "signatures"),
        (FORMATS[0], "scales of rows called those of columns", "constants"),
        (FORMATS[0], "one range halved", "steps handed on"),  # of the words that are looked up
    ],
)
def test_faults_of_ranges_types_scales_and_signatures_are_found(bert, name, fault, check):
    assert bert.honest(name).written
    outcome = bert.format_fault(name) if "format" in fault else bert.file_fault(fault, name)
    assert not outcome.written
    assert check in outcome.checks


def _product(kinds, recoded):
    """A pair of one FULLY_CONNECTED: types of input, weights and output in the quantized file."""
    codes = {"float32": 0, "int8": 9, "int16": 7}
    tensors = [types.SimpleNamespace(type=codes[kind]) for kind in kinds]
    graph = types.SimpleNamespace(tensors=tensors)
    name = "bert/layer_0_key/MatMul"
    weights = pairing.Constant(name, "FULLY_CONNECTED", 1, 1, 1, recoded, (0, 1))
    done = pairing.Operation(name, "FULLY_CONNECTED", 0, (0, 1), (2,))
    return pairing.Pair("len8", None, None, graph, (done,), (weights,), {}, {}, ())


@pytest.mark.parametrize(
    ("base", "kinds", "recoded", "layers", "message"),
    [
        ("static_wi8_ai8", ("int8", "int8", "int8"), False, {}, None),
        ("static_wi8_ai8", ("int16", "int8", "int16"), False, {}, "expected int8, received int16"),
        ("static_wi8_ai8", ("float32", "int8", "float32"), False, {}, "received float32"),
        ("static_wi8_ai8", ("float32", "float32", "float32"), False, "float32", None),
        ("dynamic_wi8_afp32", ("float32", "int8", "float32"), False, {}, None),
        ("dynamic_wi8_afp32", ("int8", "int8", "int8"), False, {}, "expected float32"),
        ("dynamic_wi8_afp32", ("float32", "int8", "float32"), True, {}, "multiplied as integers"),
        ("weight_only_wi8_afp32", ("float32", "int8", "float32"), True, {}, None),
        ("weight_only_wi8_afp32", ("float32", "int8", "float32"), False, {}, "made floats before"),
    ],
)
def test_a_product_is_computed_in_the_types_of_its_format(base, kinds, recoded, layers, message):
    formats = {"layer_0_key": quantization(layers)} if layers else {}
    model = types.SimpleNamespace(layers=[types.SimpleNamespace(name="layer_0_key")])
    faults = structure.wrong_activations(
        _evidence(model, formats, base, [_product(kinds, recoded)])
    )
    assert len(faults) == bool(message)
    assert message is None or message in faults[0]
