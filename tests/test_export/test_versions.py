"""Every format in every runtime: right where model.json says that it runs, and refused before.

TFDISTILL_RUNTIMES names the folder that scripts/older_runtimes filled.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import export
from export.conversion import quantize
from tfdistill import manifest, models
from tfdistill.tflite import runtimes

pytestmark = [pytest.mark.runtimes, pytest.mark.thorough]

# A width that blocks of 64 divide too.
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_heads": 4}
BLOCKS = "dynamic_wi4_afp32_block32"
FORMATS = [
    *((name, None) for name in quantize.quantizations()),
    ("dynamic_wi8_afp32", {"word_embeddings": BLOCKS}),
    ("dynamic_wi8_afp32", {"word_embeddings": "dynamic_wi4_afp32"}),
    ("dynamic_wi8_afp32", {"word_embeddings": "float32"}),
    ("weight_only_wi8_afp32", {"word_embeddings": "float32"}),
    ("dynamic_wi4_afp32", {"word_embeddings": "float32"}),
    (BLOCKS, {"word_embeddings": "dynamic_wi8_afp32"}),
    ("float32", {"layer_0_intermediate": "dynamic_wi8_afp32"}),
    ("static_wi8_ai8", {"word_embeddings": "float32"}),
]
# By environment: the last of `RUNTIMES` that it has everything of.
ENVIRONMENTS = {
    "tflite-runtime==2.14.0": "TensorFlow Lite 2.14.0",
    "tensorflow-cpu==2.16.1": "TensorFlow Lite 2.16.1",
    "ai-edge-litert==1.0.1": "LiteRT 1.0.1",
    "ai-edge-litert==1.2.0": "LiteRT 1.0.1",
    "ai-edge-litert==1.3.0": "LiteRT 1.0.1",
    "ai-edge-litert==1.4.0": "LiteRT 1.0.1",
    "ai-edge-litert==2.0.3": "LiteRT 1.0.1",
    "ai-edge-litert==2.1.1": "LiteRT 2.1.0",
    "ai-edge-litert==2.1.6": "LiteRT 2.1.2",
    "newest": "LiteRT 2.1.2",
}


def name_of(case):
    name, layers = case
    return name + "".join(f"+{layer}={other}" for layer, other in (layers or {}).items())


@pytest.fixture(scope="module", params=FORMATS, ids=name_of)
def exported(request, toy, lively, tmp_path_factory):
    """A toy whose every layer matters, in one format."""
    name, layers = request.param
    folder = tmp_path_factory.mktemp("exported")
    model = lively(models.build_classifier(toy.config.replace(**SIZES), 3))
    calibration = {"calibrate_on": toy.encoded} if name.startswith("static") else {}
    loose = {"sqnr_db": 3.0, "argmax_agreement": 0.1, "metric_drop": 1.0}
    export.to_tflite(
        model,
        folder / "model.tflite",
        allow_weak=True,
        **toy.arguments(quantize=name, layers=layers, bounds=loose, **calibration),
    )
    return folder


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_file_answers_rightly_or_is_refused(exported, environment):
    folder = pathlib.Path(os.environ["TFDISTILL_RUNTIMES"]) / environment
    python = sys.executable if environment == "newest" else folder / "bin" / "python"
    done = subprocess.run(
        [python, pathlib.Path(__file__).parent / "in_older.py", exported],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr[-3000:]  # no crash
    answers = json.loads(done.stdout.splitlines()[-1])
    record = manifest.read_manifest(exported)
    order = runtimes.RUNTIMES.index
    if order(ENVIRONMENTS[environment]) < order(record.least_runtime):
        assert "refused" in answers
    else:
        assert "refused" not in answers
        names = (record.quantization, *record.quantized_layers.values())
        bounds = [quantize.quantization(name).bounds for name in names]
        assert answers["same"] >= min(bound.argmax_agreement for bound in bounds)
        assert answers["sqnr_db"] >= min(bound.sqnr_db for bound in bounds)
