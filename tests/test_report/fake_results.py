"""Benchmark results with made-up but plausible numbers, as JSON values of format_version 2."""

import dataclasses
import math

import manifests

from tfdistill import report
from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import summaries
from tfdistill.report.devices import NamedResult

HOST = {
    "name": "Example 9000 Processor",
    "id": "0123456789ab",
    "os": "Example Linux 12",
    "abi": "x86_64",
    "cores_logical": 2,
    "memory_bytes": 25_276_502_016,
    "cpu_flags": ["avx2", "avx512_vnni"],
}
PHONE = {
    "name": "Example Phone 8",
    "id": "ba9876543210",
    "fingerprint": "example/phone/phone:14/ABC/1:user/release-keys",
    "soc": "Example G3",
    "abi": "arm64-v8a",
    "os": "Android 14 (API 34)",
    "cores_logical": 8,
    "max_frequencies_mhz": [1700, 1700, 1700, 1700, 2370, 2370, 2910, 2910],
    "memory_bytes": 8_000_000_000,
}
EMULATOR = {"name": "sdk_gphone64", "id": "abababababab", "abi": "x86_64", "os": "Android 14"}
REPETITIONS, BLOCKS, BLOCK_RUNS = 3, 10, 20


@dataclasses.dataclass(frozen=True)
class Model:
    """A file: its median by length, and its manifest or None."""

    name: str
    sha256: str
    p50_ms: dict
    card: dict | None = None
    size_bytes: int = 5_000_000
    quantization: str | None = None


def card(
    quantization="dynamic_wi8_afp32",
    *,
    accuracy=0.9,
    size_bytes=5_000_000,
    sha256="a" * 64,
    task="sst2",
    metric="accuracy",
    num_examples=872,
):
    """A manifest that was checked on a task."""
    content = manifests.content(
        name="model",
        model={"file": "model.tflite", "sha256": sha256, "size_bytes": size_bytes},
        quantization=quantization,
        task={"name": task, "kind": "classification", "primary_metric": metric},
        architecture={
            "family": "tinybert",
            "num_layers": 4,
            "hidden_size": 312,
            "num_heads": 12,
            "intermediate_size": 1200,
            "vocab_size": 30522,
            "num_parameters": 14_350_000,
        },
    )
    content["parity"] = {
        "num_examples": num_examples,
        "max_abs_error": 0.01,
        "mean_abs_error": 0.002,
        "sqnr_db": 41.0,
        "argmax_agreement": 0.99,
        "model_metrics": {metric: accuracy},
        "file_metrics": {metric: accuracy},
    }
    return content


def model(name, *, p50_ms=5.0, number=1, **of_card):
    """A file measured at 128 tokens."""
    sha256 = f"{number:064x}"
    size_bytes = of_card.get("size_bytes", 5_000_000)
    manifest = card(sha256=sha256, **of_card)
    return Model(name, sha256, {128: p50_ms}, manifest, size_bytes, manifest["quantization"])


def result(
    models,
    *,
    kind="host",
    backend="litert",
    device=None,
    threads=(1,),
    delegate="xnnpack",
    spread=0.01,
    comparisons=False,
    texts=False,
    blocks=False,
    created="2026-02-03T04:05:06+00:00",
    **parts,
):
    """A result of these models at each of their lengths; `parts` replace keys of it."""
    summary, measurements, compared = [], [], []
    for number in threads:
        for one in models:
            for length, p50 in one.p50_ms.items():
                p50 = p50 / (1 if number == 1 else 1.6)
                place = {
                    "model": one.name,
                    "sequence_length": length,
                    "threads": number,
                    "delegate": delegate,
                }
                rows = [{**place, **_measurement(p50, r, blocks)} for r in range(REPETITIONS)]
                measurements += rows
                counted = summaries.percentiles([schema.Measurement(**row) for row in rows])
                summary.append({**place, **_summary(one, p50, spread, blocks), **counted})
        if comparisons:
            compared += [_comparison(models[0], other, n, number, delegate)
                         for other in models[1:] for n in other.p50_ms]  # fmt: skip
    by_case = summaries.by_case([schema.Measurement(**row) for row in measurements])
    ratios = {
        (case.model, case.sequence_length, case.threads): summaries.speedup(sides)
        for case, sides in summaries.compared(by_case, models[0].name if models else "")
    }
    for row in compared:
        row["speedup"] = ratios[row["candidate"], row["sequence_length"], row["threads"]]
    timing = _percentiles(0.041)
    value = {
        "format_version": 2,
        "kind": kind,
        "backend": backend,
        "created": created,
        "tfdistill_version": "0.1.0",
        "command": ["tfdistill", "benchmark", *(one.name for one in models)],
        "settings": {"warmup": 10, "runs": 100, "repetitions": 3, "threads": list(threads)},
        "device": {"host": HOST, "emulator": EMULATOR, "phone": PHONE}[kind]
        if device is None
        else device,
        "runtime": {"name": "ai_edge_litert", "version": "2.3.0"},
        "before": conditions(load_average=0.4),
        "after": conditions(load_average=1.1),
        "models": [_file(one) for one in models],
        "measurements": measurements,
        "summary": summary,
        "comparisons": compared,
        "tokenizer": {**timing, "p90_ms": 0.066, "p95_ms": 0.08, "p99_ms": 0.12} if texts else None,
        "end_to_end": [
            {"model": one.name, "threads": 1, **_percentiles(min(one.p50_ms.values()) * 1.1)}
            for one in (models if texts else ())
        ],
    }
    return {**value, **parts}


def collected(results, **more):
    """The results of these labels, as a report takes them."""
    named = [NamedResult(name, schema.Result.model_validate(one)) for name, one in results.items()]
    return report.Collection(tuple(named), **more)


def conditions(**fields):
    """The state of a device at a moment."""
    return {"time": "2026-02-03T04:05:06+00:00", **fields}


def answers(name, accuracy, length=128, **place):
    """The answers of a device, as good as `accuracy`."""
    return {
        "model": name,
        "sequence_length": length,
        "threads": 1,
        **place,
        "num_examples": 200,
        "max_abs_error": 0.004,
        "sqnr_db": 52.5,
        "argmax_agreement": 0.995,
        "metrics": {"accuracy": accuracy},
        "host_metrics": {"accuracy": accuracy + 0.005},
    }


def many():
    """A host's result, two of one phone, and one of an emulated device, with everything in them."""
    models = [
        model("small", number=1, p50_ms=2.0, accuracy=0.88, size_bytes=5_000_000),
        model("large", number=2, p50_ms=20.0, accuracy=0.92, size_bytes=50_000_000),
        model("bad", number=3, p50_ms=22.0, accuracy=0.87, size_bytes=51_000_000),
    ]
    for one in models:
        one.p50_ms[32] = one.p50_ms[128] / 5
    phone = result(
        models,
        kind="phone",
        backend="benchmark_model",
        blocks=True,
        threads=(1, 4),
        answers=[answers("small", 0.87)],
        failures=[{"what": "large, GPU", "error": "delegate: expected all, received 3 of 208."}],
    )
    gpu = result(models, kind="phone", backend="benchmark_model", blocks=True, delegate="gpu")
    gpu["summary"][0]["throttled"] = True
    host = result(
        models,
        threads=(1, 2),
        comparisons=True,
        texts=True,
        notes=["Load average 3."],
    )
    emulator = result(models[:1], kind="emulator", backend="benchmark_model")
    return {"phone": phone, "phone_gpu": gpu, "emulator": emulator, "host": host}


def _file(one):
    of_card = one.card["model"]["size_bytes"] if one.card else one.size_bytes
    return {
        "name": one.name,
        "file": "export/model.tflite",
        "sha256": one.sha256,
        "size_bytes": of_card,
        "quantization": one.card["quantization"] if one.card else one.quantization,
        "manifest": one.card,
        "inputs": {"source": "golden", "num_examples": 16},
    }


def _summary(one, p50, spread, blocks):
    return {
        **_percentiles(p50, blocks),
        "p50_ci_ms": [p50 * (1 - spread), p50 * (1 + 2 * spread)],
        "init_ms": 21.0 if one.name == "teacher" else 4.2,
        "first_inference_ms": p50 * 2.2,
        "cold_start_ms": None if blocks else 180 + p50 * 2,
        "peak_rss_bytes": 212_000_000 if one.name == "teacher" else 61_000_000,
    }


def _percentiles(p50, blocks=False):
    tails = {"p90_ms": p50 * 1.04, "p95_ms": p50 * 1.09, "p99_ms": p50 * 1.3}
    return {
        "of": "blocks" if blocks else "inferences",
        "n": REPETITIONS * BLOCKS * BLOCK_RUNS,
        "p50_ms": p50,
        **({} if blocks else tails),
        "min_ms": p50 * 0.96,
        "max_ms": p50 * 2.0,
        "mean_ms": p50 * 1.02,
    }


def _measurement(p50, repetition, blocks):
    """Samples that follow no chance: a body around the median, a thin tail above."""
    row = {"repetition": repetition, "signature": "len128"}
    middle = p50 * (1 + 0.01 * (repetition - 1))
    if blocks:
        row["blocks"] = [
            {"n": BLOCK_RUNS, "mean_ms": middle * (1 + 0.01 * math.sin(i)),
             "min_ms": middle * 0.97, "max_ms": middle * (1.2 + 0.02 * i)}
            for i in range(BLOCKS)
        ]  # fmt: skip
        return row
    number = BLOCKS * BLOCK_RUNS
    shares = [(2 * i + 1 - number) / number for i in range(number)]  # -1 to 1
    body = [middle * (1 + 0.03 * s**3 + (0.3 * (s - 0.9) * 10 if s > 0.9 else 0)) for s in shares]
    row["samples_ms"] = [round(value, 6) for value in body]
    row["block_runs"] = BLOCK_RUNS
    return row


def _comparison(baseline, candidate, length, number, delegate):
    speedup = baseline.p50_ms[length] / candidate.p50_ms[length]
    interval = [speedup * 0.97, speedup * 1.02]
    return {
        "baseline": baseline.name,
        "candidate": candidate.name,
        "sequence_length": length,
        "threads": number,
        "delegate": delegate,
        "speedup": speedup,
        "speedup_ci": interval,
        "faster": True if interval[0] > 1 else False if interval[1] < 1 else None,
    }
