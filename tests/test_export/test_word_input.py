"""A file that starts at the embeddings: no lookups, the same answers, and faults are caught."""

import pathlib
import shutil
import sys

import numpy as np
import pytest

import export
from export.checking import verify
from export.conversion import convert, word_input
from export.conversion.plan import make_plan
from export.file import inspection
from export.file.runtime import TfliteModel
from export.model.request import ExportRequest
from tfdistill import errors, manifest, models
from tfdistill.accelerators import gate
from tfdistill.accelerators.outcome import AcceleratorReport
from tfdistill.benchmark import subjects
from tfdistill.tflite import described, editing, reader, word_rows

WORKER = pathlib.Path(__file__).parents[1] / "test_accelerators" / "planted_worker.py"
# The operators of MediaTek_Neuro_Compiler.md in LiteRT's sources that encoders of text need.
MEDIATEK = set(
    "ADD BATCH_MATMUL CAST CONCATENATION DEQUANTIZE DIV FULLY_CONNECTED GELU L2_NORMALIZATION "
    "LOGISTIC MAXIMUM MEAN MUL PAD QUANTIZE RELU RESHAPE RSQRT SLICE SOFTMAX SPLIT SQRT "
    "SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TRANSPOSE UNPACK".split()
)


def build(**changes):
    config = models.EncoderConfig(
        family="bert",
        num_layers=1,
        hidden_size=16,
        num_heads=2,
        intermediate_size=32,
        vocab_size=60,
        max_positions=12,
        **changes,
    )
    return models.build_span_classifier(config)


@pytest.fixture(scope="module")
def files(tmp_path_factory, lively):
    """A model of spans for the CPU and for an NPU without lookups, and the float32 conversion."""
    folder = tmp_path_factory.mktemp("rows")
    own = convert.convert

    def keeping(plan, file, *float_file):
        own(plan, file, *float_file)
        if plan.device.word_rows:
            shutil.copy(float_file[0] if float_file else file, folder / "float.tflite")

    with pytest.MonkeyPatch.context() as patch:
        report = AcceleratorReport("intel-npu", "an NPU", "whole", (), None)
        patch.setattr(verify.gate, "check", lambda *_, **__: [report])
        patch.setattr(convert, "convert", keeping)
        model = lively(build())
        quantize = {"quantize": "float32", "variants": {"npu-rows": "dynamic_wi8_afp32"}}
        export.to_tflite(model, folder / "model.tflite", lengths=(8, 12), **quantize)
    return folder, model


def test_the_file_takes_rows_and_looks_nothing_up(files):
    folder, _ = files
    card = manifest.read_manifest(folder / "model-npu-rows.tflite")
    report = inspection.inspect(folder / "model-npu-rows.tflite")

    assert card.word_table.file == "words.safetensors" and card.device == "npu-rows"
    described.check_signatures(card, folder / card.model.file)
    for length, graph in zip((8, 12), report.graphs, strict=True):
        rows = graph.inputs["word_rows"]
        assert (rows.dtype, rows.shape) == ("float32", (1, length, 16))
        assert graph.inputs.keys() == {"word_rows", "attention_mask", "token_type_ids"}
        assert graph.operators.keys() <= MEDIATEK
    tensors = reader.read(folder / "model-npu-rows.tflite").subgraphs[0].tensors
    assert all(60 not in tensor.shape for tensor in tensors)  # no trace of the table
    assert card.parity.sqnr_db > 25
    whole = manifest.read_manifest(folder)
    assert whole.devices == ("cpu", "npu-rows") and whole.word_table is None
    assert '"word_table"' not in whole.for_device("cpu").model_dump_json()
    assert "`model-npu-rows.tflite`, `words.safetensors`" in (folder / "README.md").read_text()


def test_the_float_file_answers_as_with_ids_for_both_token_types(files):
    folder, model = files
    rows = TfliteModel(folder / "float.tflite", rows=word_input.float_rows(model))
    with_ids = TfliteModel(folder / "model.tflite")
    random = np.random.default_rng(2)
    for size in (3, 8, 12):
        ids, types = random.integers(0, 60, size), random.integers(0, 2, size)
        expected = with_ids.predict(ids, types)
        assert np.abs(rows.predict(ids, types) - expected).max() < 1e-5 * np.abs(expected).max()


def test_rows_and_their_table_belong_together(files):
    folder, _ = files
    path = folder / "model-npu-rows.tflite"
    with pytest.raises(errors.ExportError, match="rows of words and their table"):
        TfliteModel(path)
    with pytest.raises(errors.BenchmarkError, match="width 16, received None"):
        gate.check(path, [("mediatek", "mt6989")])
    with pytest.raises(errors.BenchmarkError, match="rows of words, which the app looks up"):
        subjects.open_subject(path)


@pytest.mark.parametrize("change", ["row", "scale", "cut"])
def test_a_fault_of_the_table_is_refused(files, tmp_path, change):
    """The guard reads the file of the table as it was written."""
    folder, model = files
    request = ExportRequest(
        model, folder / "m.tflite", quantize="float32", device="npu-rows", lengths=(8, 12)
    )
    plan = make_plan(request)
    words = tmp_path / "words.safetensors"
    table = word_rows.rounded(word_input.table_of(model))
    if change == "row":
        table.codes[7] = -table.codes[7]
    if change == "scale":
        table.scales[9] *= 2
    content = word_rows.to_bytes(table)
    words.write_bytes(content[:-20] if change == "cut" else content)
    found = {"row": "1 rows, first 7", "scale": "first of row 9", "cut": "a whole safetensors"}
    reference = verify.Reference(folder / "float.tflite")
    reference.checked = object()  # the table is read before any answer is compared
    with pytest.raises((errors.ParityError, errors.ManifestError), match=found[change]):
        verify.verify(plan, folder / "float.tflite", reference, words)


@pytest.mark.parametrize("fault", ["zeros", "swapped", "weights"])
def test_wrong_answers_of_the_accelerator_are_wrong(files, tmp_path, fault):
    folder, _ = files
    (tmp_path / "libvk_swiftshader.so").touch()
    card = manifest.read_manifest(folder / "model-npu-rows.tflite")
    (report,) = gate.check(
        folder / card.model.file,
        [("gpu", "")],
        words=word_rows.of(card, folder),
        libraries={"gpu": tmp_path},
        worker=(sys.executable, str(WORKER), fault),
    )
    assert (report.verdict, len(report.signatures)) == ("wrong", 2)


def test_ids_that_are_used_otherwise_are_not_cut_off(files):
    model = editing.read(files[0] / "model.tflite")
    graph = model.subgraphs[0]
    names = [editing.name_of(model, operator) for operator in graph.operators]
    cast, gather = graph.operators[names.index("CAST")], graph.operators[names.index("GATHER")]
    cast.inputs = [gather.inputs[1]]
    with pytest.raises(errors.ExportError, match="lookup of rows alone, received CAST"):
        word_input.cut_lookups(model)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"type_vocab_size": 3}, {}, "at most 2 token types, received 3"),
        ({}, {"layers": {"word_*": "float32"}}, "its table is int8"),
        ({}, {"quantize": "float16"}, "in 16 bits as well"),
    ],
)
def test_what_has_no_such_file_is_refused_before_any_work(tmp_path, changes, options, message):
    request = ExportRequest(
        build(**changes), tmp_path / "m.tflite", device="npu-rows", lengths=(8,), **options
    )
    with pytest.raises(errors.ConfigError, match=message):
        make_plan(request)
