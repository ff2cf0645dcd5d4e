"""A file for a GPU or an NPU: another form, the same answers, checked on the accelerator."""

import shutil

import numpy as np
import pytest

import export
from export.checking import pairing, verify
from export.conversion import convert, device_form, lookup, quantize
from export.conversion.plan import make_plan
from export.file import inspection
from export.file.runtime import TfliteModel
from export.model.request import ExportRequest
from tfdistill import errors, manifest, models
from tfdistill.accelerators.outcome import AcceleratorReport, SignatureOnAccelerator
from tfdistill.tflite import editing


def outcome(verdict, fault=None):
    signatures = (SignatureOnAccelerator("len8", 9, 7, None, {"GATHER": "why"}, (), None),)
    return AcceleratorReport("gpu", "a GPU", verdict, signatures, fault)


@pytest.fixture(scope="module")
def files(toy, tmp_path_factory):
    """The toy in dynamic int8 for a GPU that takes it whole, and its float32 conversion."""
    folder = tmp_path_factory.mktemp("gpu")
    own = convert.convert

    def keeping(plan, file, float_file):
        own(plan, file, float_file)
        shutil.copy(float_file, folder / "float32.tflite")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify.gate, "check", lambda *_, **__: [outcome("whole")])
        patch.setattr(convert, "convert", keeping)
        export.to_tflite(toy.model, folder / "model.tflite", **toy.arguments(device="gpu"))
    return folder / "model.tflite", folder / "float32.tflite"


def test_a_gpu_file_looks_all_ids_up_by_row_and_answers_as_well(files, toy):
    graphs = inspection.inspect(files[0]).graphs
    model = editing.read(files[0])

    assert {graph.operators["EMBEDDING_LOOKUP"] for graph in graphs} == {1}
    assert {graph.operators["GATHER"] for graph in graphs} == {1}
    for graph in model.subgraphs:
        for operator in graph.operators:
            name = editing.name_of(model, operator)
            if name in ("GATHER", "EMBEDDING_LOOKUP"):
                ids = operator.inputs[1 if name == "GATHER" else 0]
                assert len(graph.tensors[ids].shape) == 1
            if name == "EMBEDDING_LOOKUP":
                table = graph.tensors[operator.inputs[1]]
                assert len(table.quantization.scale) == table.shape[0] == toy.config.vocab_size
    assert manifest.read_manifest(files[0]).parity.sqnr_db > 30.0  # as a CPU's file: 33


def test_the_manifest_says_what_the_file_is_for_and_what_was_taken(files):
    card = manifest.read_manifest(files[0])
    (found,) = card.accelerators

    assert (card.device, found.name, found.verdict) == ("gpu", "gpu", "whole")
    assert (found.delegated, found.operators) == ({"len8": 7}, {"len8": 9})
    written = card.model_copy(update={"device": "cpu"}).model_dump()
    assert card.model_dump().keys() - written.keys() == {"device", "accelerators"}


def test_flat_ids_change_no_answer_and_are_flattened_once(files, toy, tmp_path):
    source = files[1]
    model = editing.read(source)

    assert device_form.flatten_ids(model) == 2 * len(toy.lengths)  # words and token types
    assert device_form.flatten_ids(model) == 0
    editing.write(model, tmp_path / "flat.tflite")
    before, after = TfliteModel(source), TfliteModel(tmp_path / "flat.tflite")
    for i in range(10):
        ids, types = toy.encoded.row(i), toy.encoded.row_types(i)
        assert np.array_equal(before.predict(ids, types), after.predict(ids, types))


def test_the_guard_sees_through_flat_ids_and_finds_the_wrong_ones(files):
    float_model = editing.read(files[1])
    model = editing.read(files[1])
    device_form.flatten_ids(model)
    assert all(pair.faults == () for pair in pairing.pair(float_model, model))

    graph = model.subgraphs[0]
    gathers = [o for o in graph.operators if editing.name_of(model, o) == "GATHER"]
    gathers[1].inputs = [gathers[1].inputs[0], gathers[0].inputs[1]]  # types by the ids of words
    assert any(pair.faults for pair in pairing.pair(float_model, model))


def test_operands_get_the_rank_of_the_result_and_answers_stay(files, toy, tmp_path):
    model = editing.read(files[1])
    assert device_form.equal_ranks(model) == 0
    graph = model.subgraphs[0]
    (added,) = (
        operator
        for operator in graph.operators
        if b"embeddings_add/add_1" in graph.tensors[operator.outputs[0]].name
    )
    rows = int(added.inputs[1])  # (1, L, d): as the converter leaves it for a MobileBERT, (L, d)
    flat = editing.add_tensor(graph, "flat", list(graph.tensors[rows].shape)[1:], 0)
    place = graph.operators.index(added)
    graph.operators.insert(place, lookup.reshape(model, graph, rows, flat))
    added.inputs = [added.inputs[0], flat]

    # A product of integers that makes (L, e) of (1, L, d) does not compile on a GPU.
    product = next(
        operator
        for operator in graph.operators
        if editing.name_of(model, operator) == "FULLY_CONNECTED"
        and len(graph.tensors[operator.inputs[0]].shape) == 2
        and graph.tensors[operator.inputs[0]].shape[0] > 1
    )
    source = int(product.inputs[0])
    whole = editing.add_tensor(graph, "whole", [1, *graph.tensors[source].shape], 0)
    place = graph.operators.index(product)
    graph.operators.insert(place, lookup.reshape(model, graph, source, whole))
    product.inputs = [whole, *product.inputs[1:]]

    assert device_form.equal_ranks(model) == 2
    assert [len(graph.tensors[index].shape) for index in added.inputs] == [3, 3]
    assert len(graph.tensors[product.inputs[0]].shape) == 2
    editing.write(model, tmp_path / "ranks.tflite")
    before, after = TfliteModel(files[1]), TfliteModel(tmp_path / "ranks.tflite")
    for i in range(10):
        ids, types = toy.encoded.row(i), toy.encoded.row_types(i)
        assert np.array_equal(before.predict(ids, types), after.predict(ids, types))


@pytest.mark.parametrize("verdict", ["wrong", "failed"])
def test_a_file_that_the_accelerator_answers_wrongly_is_refused(toy, files, monkeypatch, verdict):
    plan = make_plan(ExportRequest(toy.model, files[0], **toy.arguments(device="gpu")))
    asked = []

    def check(file, accelerators, **options):
        asked.append((file, accelerators, options["golden"]))
        return [outcome(verdict, "logits: all zero")]

    monkeypatch.setattr(verify.gate, "check", check)
    with pytest.raises(errors.ParityError, match=r"gpu \(a GPU\), logits: all zero"):
        verify.on_accelerator(plan, files[0], {"examples": []})
    assert asked == [(files[0], [("gpu", "")], {"examples": []})]


@pytest.mark.parametrize(
    ("device", "quantization", "message"),
    [
        ("gpu", "weight_only_wi8_afp32", "its answers are wrong there"),
        ("gpu", "dynamic_wi4_afp32_block32", "crashes on weights in blocks"),
        ("gpu", "static_wi8_ai8", "static integers are for NPUs"),
        ("tpu", "float32", "cpu, gpu, npu"),
    ],
)
def test_what_an_accelerator_does_not_take_is_refused_before_any_work(
    device, quantization, message
):
    with pytest.raises(errors.ConfigError, match=message):
        device_form.form(device, quantize.quantization(quantization))


def test_what_is_refused_is_the_name_of_a_quantization():
    for form in device_form.FORMS.values():
        assert form.refused.keys() <= quantize.quantizations().keys()


def test_an_npu_gets_a_mask_that_16_bits_hold_while_it_is_traced():
    config = models.MobileBertConfig(
        num_layers=1,
        hidden_size=16,
        num_heads=2,
        intermediate_size=16,
        vocab_size=20,
        max_positions=8,
        embedding_size=8,
        bottleneck_size=8,
        num_feed_forward=1,
    )
    model = models.build_classifier(config, 2)
    layer = model.get_layer("attention_mask_scores")
    mask = np.array([[1, 0]])

    for name, expected in (("cpu", -1e4), ("gpu", -1e4), ("npu", -100.0)):
        with device_form.masked(model, device_form.FORMS[name]):
            assert layer(mask).numpy().ravel().tolist() == [0.0, expected]
    assert layer(mask).numpy().ravel().tolist() == [0.0, -1e4]
