import re
import subprocess
import sys

import pytest

import export
from tfdistill.results import quantities
from tfdistill.tflite import inspection


def test_a_report_shows_signatures_inputs_and_operators(exported):
    report = export.inspect(exported("dynamic_wi8_afp32").path)
    assert list(report.signatures) == ["len8", "len16"]
    graph = report.signatures["len8"]
    assert {t.name: (t.dtype, t.shape) for t in graph.inputs} == {
        name: ("int32", (1, 8)) for name in ("attention_mask", "input_ids", "token_type_ids")
    }
    assert [(t.name, t.shape) for t in graph.outputs] == [("logits", (1, 3))]
    # Six dense layers in each of two blocks, pooler and classifier; erf GELU became one operator.
    assert graph.operators["FULLY_CONNECTED"] == 14
    assert graph.operators["GELU"] == 2
    assert graph.operators["SOFTMAX"] == 2
    assert graph.num_operators < 50 * 2 + 15
    assert graph.dynamic_tensors == ()
    assert report.sha256 == exported("dynamic_wi8_afp32").card.model.sha256


@pytest.mark.slow
def test_the_text_shows_what_the_report_holds(exported):
    report = export.inspect(exported("float16").path)
    lines = inspection.format_text(report).splitlines()
    size = quantities.size(report.size_bytes)
    assert lines[0].startswith(f"model.tflite  {size}  sha256 {report.sha256[:16]}")
    assert re.match(r"constants: float16 \d[\d.]+ kB", lines[1])
    assert "  in  input_ids  int32[1, 8]" in lines
    assert "  out logits  float32[1, 3]" in lines
    assert lines[-1] == "  ops as in len8"


@pytest.mark.shared_data
def test_a_file_without_signatures_shows_its_graph(shared_data):
    report = export.inspect(shared_data / "tflite" / "average_word_vec_sst2.tflite", open_it=True)
    assert report.signatures == {}
    (graph,) = report.graphs
    assert {t.name: (t.dtype, t.shape) for t in graph.inputs} == {"input_1": ("int32", (1, 256))}
    assert graph.operators["SOFTMAX"] == 1
    assert (graph.partitions, graph.left_operators) == (1, {"GATHER": 1})
    assert "TFLITE_METADATA" in report.metadata
    assert "graph 0 (no signature): 5 operators" in inspection.format_text(report)


def test_inspecting_needs_no_tensorflow(exported):
    program = (
        "import sys, export\n"
        f"export.inspect({str(exported('float32').path)!r}); export.quantizations()\n"
        "print(sorted({'tensorflow', 'tf_keras', 'keras'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
