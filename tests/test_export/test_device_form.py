"""A file for a GPU: another form, the same answers on a CPU."""

import json
import shutil

import numpy as np
import pytest
import toys

import export
from export.checking import pairing
from export.conversion import convert, device_form, lookup
from export.file import bundle
from export.targets import android_bundle
from tfdistill import cli, errors, manifest, models
from tfdistill.tflite import TfliteModel, editing, inspection


@pytest.fixture(scope="module")
def files(toy, tmp_path_factory):
    """The toy for a GPU, its float32 conversion, and a variant for a CPU."""
    folder = tmp_path_factory.mktemp("gpu")
    plain = convert.convert

    def keeping(plan, folder_of_file, *float_file):
        converted = plain(plan, folder_of_file, *float_file)
        if plan.device.name == "gpu":
            shutil.copy(converted.float_file, folder / "float32.tflite")
        return converted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "convert", keeping)
        both = {"device": "gpu", "variants": {"cpu": "float32"}}
        toy.export(folder / "model.tflite", **both)
    return folder / "model.tflite", folder / "float32.tflite"


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["float32", "dynamic_wi8_afp32"])
def test_a_mobilebert_for_a_gpu_needs_no_further_edit_and_its_cpu_file_does(quantize, tmp_path):
    widths = {"hidden_size": 32, "intermediate_size": 32}
    inner = {"embedding_size": 16, "bottleneck_size": 16, "num_feed_forward": 1}
    config = toys.MOBILEBERT.replace(vocab_size=40, **widths, **inner)
    model = models.build_random(config, models.Head("sequence", 2))
    bounds = {"sqnr_db": 5.0, "argmax_agreement": 0.5, "max_error": 5.0, "mean_error": 5.0}
    both = {"device": "gpu", "variants": {"cpu": quantize}, "bounds": bounds}
    export.to_tflite(model, tmp_path / "m.tflite", quantize=quantize, lengths=(8,), **both)
    edits = (device_form.flatten_ids, device_form.equal_ranks)
    for name, is_done in (("m.tflite", True), ("m-cpu.tflite", False)):
        tree = editing.read(tmp_path / name)
        assert any([edit(tree) for edit in edits]) != is_done


@pytest.mark.slow
def test_files_for_several_devices_are_in_one_manifest(files, tmp_path, capsys):
    folder = files[0].parent
    whole = manifest.read_manifest(folder)
    assert whole.devices == ("gpu", "cpu")
    other = manifest.read_manifest(folder / "model-cpu.tflite")
    assert (other.quantization, other.device) == ("float32", "cpu")
    assert other.parity.sqnr_db > 100 > whole.parity.sqnr_db
    golden = [folder / file.golden_file.file for file in whole.each_file()]
    assert [file.name for file in golden] == ["golden.json", "golden-cpu.json"]
    gpu, cpu = (json.loads(file.read_text())["examples"] for file in golden)
    assert [file["input_ids"] for file in gpu] == [file["input_ids"] for file in cpu]
    assert [file["outputs"] for file in gpu] != [file["outputs"] for file in cpu]
    assert cli.main(["inspect", str(folder), "--static", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["variants"].keys() == {"cpu"}
    card = (folder / "README.md").read_text()
    assert "| `model-cpu.tflite` | cpu | `float32` |" in card
    assert "for a GPU was only run on a CPU" in card

    assets = tmp_path / "assets"
    bundle = export.to_android(folder, assets)
    names = {name: file.device for name, file in android_bundle.read_index(assets).bundles.items()}
    assert names == {f"{bundle.name}": None, f"{bundle.name}-cpu": "cpu"}
    assert (bundle / "model-cpu.tflite").is_file() and (bundle / "golden-cpu.json").is_file()
    with pytest.raises(errors.OutputExistsError, match=f"that of {bundle.name}"):
        export.to_android(folder / "model.tflite", assets, name=f"{bundle.name}-cpu")
    export.to_android(folder / "model.tflite", assets, name=bundle.name, overwrite=True)
    assert list(android_bundle.read_index(assets).bundles) == [bundle.name]


@pytest.mark.slow
def test_a_file_of_a_manifest_is_written_and_removed_with_the_others(files, tmp_path):
    folder = shutil.copytree(files[0].parent, tmp_path / "export")
    with pytest.raises(errors.ConfigError, match=r"a variant in .*model.json"):
        bundle.paths_of(folder / "model-cpu.tflite")
    paths = bundle.paths_of(folder / "model.tflite")
    alone = manifest.read_manifest(folder).for_device("gpu").model_dump_json()
    obsolete = bundle.variant_files(paths.manifest)
    bundle.write({paths.manifest: alone.encode()}, obsolete=obsolete)
    assert not list(folder.glob("*-cpu.*"))
    assert manifest.read_manifest(folder).devices == ("gpu",)


def assert_same_answers(source, target, toy):
    before, after = TfliteModel(source), TfliteModel(target)
    for i in range(10):
        ids, types = toy.encoded.row(i), toy.encoded.row_types(i)
        assert np.array_equal(before.predict(ids, types), after.predict(ids, types))


@pytest.mark.slow
def test_flat_ids_change_no_answer_and_the_guard_finds_wrong_ones(files, toy, tmp_path):
    float_model, model = editing.read(files[1]), editing.read(files[1])

    assert device_form.flatten_ids(model) == 2 * len(toy.lengths)  # words and token types
    assert device_form.flatten_ids(model) == 0
    editing.write(model, tmp_path / "flat.tflite")
    assert_same_answers(files[1], tmp_path / "flat.tflite", toy)
    assert all(pair.faults == () for pair in pairing.pair(float_model, model))

    graph = model.subgraphs[0]
    gathers = [o for o in graph.operators if editing.name_of(model, o) == "GATHER"]
    gathers[1].inputs = [gathers[1].inputs[0], gathers[0].inputs[1]]  # types by the ids of words
    assert any(pair.faults for pair in pairing.pair(float_model, model))


@pytest.mark.slow
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
    assert_same_answers(files[1], tmp_path / "ranks.tflite", toy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantize": "weight_only_wi8_afp32"}, "its answers are wrong there"),
        ({"quantize": "dynamic_wi4_afp32_block32"}, "crashes on weights in blocks"),
        ({"quantize": "static_wi8_ai8"}, "static integers are for integer units"),
        ({"device": "npu"}, "device: expected cpu, gpu, received 'npu'"),
        ({"variants": {"gpu": "float32"}}, "variants: expected files for others than gpu"),
    ],
)
def test_what_a_gpu_does_not_take_is_refused_before_any_work(options, message, toy, tmp_path):
    with pytest.raises(errors.ConfigError, match=message):
        toy.export(tmp_path / "m.tflite", **{"device": "gpu", "quantize": "float32", **options})
