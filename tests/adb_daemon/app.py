"""Acts like the demo app: obeys the extras of an intent, writes states and a benchmark.json.

says/app.json tells its package, its bundles (name: sha256, size_bytes) and what goes wrong.
"""

import json
import os
import pathlib
import sys
import time

DEVICE, EXTRAS = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
APP = json.loads((DEVICE / "says/app.json").read_text())
FOLDER = DEVICE / "sdcard/Android/data" / APP["package"] / "files/benchmark"
FAULT = APP["fault"]
NOW = "2026-11-21T12:00:00Z"


def write(name: str, text: str) -> None:
    temporary = FOLDER / f"{name}.tmp"
    temporary.write_text(text)
    os.replace(temporary, FOLDER / name)


def state(word: str, finished: int, of: int, error: str | None = None) -> None:
    content = {"format_version": 1, "state": word, "finished": finished, "of": of, "error": error}
    text = "{" if FAULT == "garbled state" else json.dumps(content)
    write(f"{EXTRAS['run_id']}.state.json", text)


def measurement(number: int, length: int, threads: int) -> dict:
    """Durations that tell length, threads, seed and their own place apart."""
    base = length / 10 / threads + EXTRAS["seed"] / 1000
    level = 0.0 if FAULT == "no durations" else base
    rounds = EXTRAS["rounds"]
    block = -(-EXTRAS["runs"] // rounds)
    # What was compared on the GPU first has opened the file before.
    cold = number == 0 and EXTRAS["accelerator"] == "cpu"
    conditions = {"time": NOW, "thermal_status": APP["thermal_status"], "battery_percent": 81.0}
    return {
        "model": EXTRAS["bundle"],
        "sequence_length": length,
        "threads": threads,
        "delegate": {"cpu": "xnnpack", "gpu": "gpu"}[EXTRAS["accelerator"]],
        "signature": f"len{length}",
        "repetition": 3 if FAULT == "other places" else 0,
        "started": NOW,
        "warmup_ms": [base] * EXTRAS["warmup"],
        "samples_ms": [level + i % 7 / 1000 * bool(level) for i in range(block * rounds)],
        "block_runs": block,
        "process_start_ms": 310.0 if cold else None,
        "init_ms": 12.5,
        "first_inference_ms": 2 * base,
        "cold_start_ms": 330.0 if cold else None,
        "before": conditions,
        "after": conditions,
    }


def numbers(name: str) -> list[int]:
    return [int(part) for part in EXTRAS[name].split(",")]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    places = [(length, threads) for length in numbers("lengths") for threads in numbers("threads")]
    bundle = APP["bundles"].get(EXTRAS["bundle"])
    state("running", 0, len(places))
    if bundle is None or FAULT == "fails":
        names = ", ".join(APP["bundles"])
        reason = f"bundle: expected one of [{names}], received {EXTRAS['bundle']}."
        state("failed", 0, len(places), "out of memory" if FAULT == "fails" else reason)
        return
    if FAULT == "other answers on the GPU" and EXTRAS["accelerator"] == "gpu":
        differs = "answers of it on this device: expected an error of at most 0.02, received 0.7."
        state("failed", 0, len(places), differs)
        return
    rows = []
    for number, place in enumerate(places):
        rows.append(measurement(number, *place))
        if FAULT == "leaves places out":
            break
        state("running", len(rows), len(places))
        if FAULT == "crashes":
            return
        if FAULT == "hangs":
            time.sleep(60)
    sustained = {
        **{key: rows[-1][key] for key in ("model", "sequence_length", "threads", "delegate")},
        "windows": [{"start_s": 0.0, "n": 100, "p50_ms": 5.0, "p90_ms": 6.0}],
    }
    answers = {
        **{key: rows[0][key] for key in ("model", "sequence_length", "threads")},
        "delegate": "nnapi" if FAULT == "foreign answers" else rows[0]["delegate"],
        "num_examples": 7,
        "max_abs_error": EXTRAS["seed"] / 1000,
        "sqnr_db": 90.0,
        "argmax_agreement": 1.0,
    }
    text = {key: rows[0][key] for key in ("model", "threads", "delegate", "repetition")}
    result = {
        "format_version": 2,
        "kind": "phone",
        "backend": "app",
        "created": NOW,
        "tfdistill_version": "1.2.3",
        "settings": {"seed": EXTRAS["seed"]},
        "device": {"name": "what the app knows"},
        "runtime": {"name": APP["package"], "version": "1.0", "packages": {"litert": "2.1.6"}},
        "models": [
            {
                "name": EXTRAS["bundle"],
                "file": f"{EXTRAS['bundle']}/model.tflite",
                **bundle,
                "inputs": {"source": "golden", "num_examples": 7},
            }
        ],
        "measurements": rows,
        "texts": [{**text, "tokenizer_ms": [0.5, 0.4], "samples_ms": [3.5, 3.4]}],
        "answers": [] if FAULT == "no answers" else [answers],
        "sustained": [sustained] if EXTRAS["sustained_seconds"] else [],
    }
    content = json.dumps({**result, "surprise": 1} if FAULT == "foreign keys" else result)
    if FAULT == "cut off":
        content = content[: len(content) // 2]
    write(f"{EXTRAS['run_id']}.json", content)
    if FAULT == "too large":
        os.truncate(FOLDER / f"{EXTRAS['run_id']}.json", 1 << 30)
    state("done", len(rows), len(places))


main()
