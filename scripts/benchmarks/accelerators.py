"""What GPUs and NPUs take of exported files, and whether they answer as the CPU does.

Models x formats, small shapes with random weights: operators and answers do not depend on widths. A
file of one length is converted as an export converts it, then compiled and run by the gate of
`tfdistill inspect --accelerators`.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import numpy as np
import record
import tqdm

from export.conversion import convert
from export.conversion.prepare import make_plan
from export.model import inputs
from export.model.request import ExportRequest
from tfdistill import errors, models
from tfdistill.accelerators import gate, vendors
from tfdistill.accelerators.outcome import AcceleratorReport

LENGTH = 16
_SMALL: dict[str, Any] = {"num_layers": 2, "vocab_size": 300, "max_positions": 32}
_WIDTHS: dict[str, Any] = {"hidden_size": 64, "num_heads": 2, "intermediate_size": 128}
# Accelerator, quantization, form of the file.
CELLS = (
    ("gpu", "float32", "cpu"),
    ("gpu", "dynamic_wi8_afp32", "cpu"),
    ("gpu", "float32", "gpu"),
    ("gpu", "dynamic_wi8_afp32", "gpu"),
    ("gpu", "dynamic_wi4_afp32", "gpu"),
    ("intel-npu", "float32", "npu"),
    ("intel-npu", "dynamic_wi8_afp32", "npu"),
    ("intel-npu", "dynamic_wi4_afp32", "npu"),
    ("intel-npu", "static_wi8_ai8", "npu"),
)


def shapes(*, quick: bool) -> dict[str, models.EncoderConfig]:
    """Returns the families, small: their operators are those of the large presets."""
    configs: dict[str, models.EncoderConfig] = {
        "BERT, TinyBERT, MiniLM": models.EncoderConfig(family="bert", **_SMALL, **_WIDTHS),
    }
    if quick:
        return configs
    return {
        **configs,
        "DistilBERT": models.EncoderConfig(
            family="distilbert", type_vocab_size=0, pooler=False, **_SMALL, **_WIDTHS
        ),
        "MobileBERT": models.MobileBertConfig(
            **_SMALL,
            hidden_size=64,
            num_heads=2,
            intermediate_size=64,
            embedding_size=32,
            bottleneck_size=32,
            num_feed_forward=2,
            hidden_act="relu",
        ),
        "sentence encoder": configs["BERT, TinyBERT, MiniLM"],
    }


def measure(*, quick: bool) -> record.Outcome:
    """Converts, compiles and compares every model in every format."""
    convert.run_in_child = lambda conversion, *, timeout_s=0.0: convert.run(conversion)
    samples: dict[str, Any] = {}
    verdicts: dict[str, dict[str, str]] = {}
    cells = CELLS[:2] if quick else CELLS
    chosen = shapes(quick=quick)
    bar = tqdm.tqdm(total=len(chosen) * len(cells), desc="files", disable=None)
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        for title, config in chosen.items():
            model = build(title, config)
            for accelerator, quantization, device in cells:
                cell = f"{accelerator}, {quantization}, --for {device}"
                report = check(model, accelerator, quantization, device, pathlib.Path(folder))
                verdicts.setdefault(cell, {})[title] = shown(report)
                samples[f"{title}: {cell}"] = sample(report)
                bar.update()
    bar.close()
    right = [one["verdict"] in ("whole", "partial") for one in samples.values()]
    whole = [one["verdict"] == "whole" for key, one in samples.items() if "--for cpu" not in key]
    figures = [record.Figure("files answered as by the CPU", float(np.mean(right)))]
    if whole:
        figures.append(record.Figure("files for an accelerator taken whole", float(np.mean(whole))))
    return record.Outcome(
        title=f"accelerators: {len(chosen)} models, {len(cells)} formats, {LENGTH} tokens",
        figures=figures,
        details=[
            (cell, "; ".join(f"{title}: {text}" for title, text in row.items()))
            for cell, row in verdicts.items()
        ],
        settings={"length": LENGTH, "models": list(chosen), "formats": [list(c) for c in cells]},
        samples=samples,
        notes=["Graphs and answers on this host; no time, and no phone."],
    )


def build(title: str, config: models.EncoderConfig) -> Any:
    """Builds a model with weights of ordinary size, so that every operator shows in the answer."""
    if title == "sentence encoder":
        model = models.build_embedder(config)
    else:
        model = models.build_classifier(config, 3)
    random = np.random.default_rng(1)
    for weight in model.weights:
        noise = random.standard_normal(weight.shape)
        if weight.shape.rank == 1:
            weight.assign(weight + 0.1 * noise)
        elif "embeddings" in weight.name:
            weight.assign(noise)
        else:
            weight.assign(noise / np.sqrt(weight.shape[0]))
    return model


def check(
    model: Any, accelerator: str, quantization: str, device: str, folder: pathlib.Path
) -> AcceleratorReport | str:
    """Converts a model and runs the file; returns the fault where it is no file at all."""
    file = folder / "model.tflite"
    file.unlink(missing_ok=True)
    drawn = inputs.draw(models.config_of(model), (LENGTH,))
    request = ExportRequest(
        model,
        file,
        quantize=quantization,
        device=device,
        lengths=(LENGTH,),
        calibrate_on=drawn if quantization.startswith("static") else None,
        num_calibration=len(drawn),
    )
    try:
        convert.convert_to(make_plan(request), file)
    except errors.TfdistillError as error:
        return str(error)
    return gate.check(file, vendors.parse(accelerator))[0]


def shown(report: AcceleratorReport | str) -> str:
    """Writes a report in a cell: "whole, 43 dB", "91 of 97, 126 dB", "wrong, 11 dB"."""
    if isinstance(report, str):
        return "not offered"
    if not report.signatures:
        return report.verdict
    (signature,) = report.signatures
    answers = signature.answers
    ratio = "" if answers is None or answers.sqnr_db is None else f", {answers.sqnr_db:.0f} dB"
    if report.verdict == "partial":
        return f"{signature.delegated} of {signature.operators}{ratio}"
    return report.verdict + ratio


def sample(report: AcceleratorReport | str) -> dict[str, Any]:
    """Keeps what a record needs of a report."""
    if isinstance(report, str):
        return {"verdict": "not offered", "fault": report}
    fields: dict[str, Any] = {"verdict": report.verdict, "fault": report.fault}
    for signature in report.signatures:
        answers = signature.answers
        fields |= {
            "operators": signature.operators,
            "delegated": signature.delegated,
            "left": signature.left,
            "sqnr_db": None if answers is None else answers.sqnr_db,
        }
    return fields
