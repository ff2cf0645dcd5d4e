"""Runs the golden examples of an export in the runtime of this Python: in_older.py FOLDER.

Prints {"refused": why} or the share of equal answers and the SQNR of all. It imports nothing of
tfdistill, which old environments cannot.
"""

import json
import pathlib
import sys

import numpy as np


def interpreter():
    """Returns the class of whichever runtime is installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        try:
            from tflite_runtime.interpreter import Interpreter
        except ImportError:
            import tensorflow as tf

            Interpreter = tf.lite.Interpreter
    return Interpreter


def main(folder):
    """Compares what the file answers with what golden.json says it did."""
    manifest = json.loads((folder / "model.json").read_text())
    examples = json.loads((folder / "golden.json").read_text())["examples"]
    expected, received = [], []
    try:
        runner_of = interpreter()(str(folder / manifest["model"]["file"])).get_signature_runner
        for example in examples:
            run, ids = runner_of(example["signature"]), example["input_ids"]
            shape = manifest["signatures"][example["signature"]]["inputs"]["input_ids"]["shape"]
            feeds = {name: np.zeros(shape, np.int32) for name in run.get_input_details()}
            feeds["input_ids"][0, : len(ids)] = ids
            feeds["attention_mask"][0, : len(ids)] = 1
            if "token_type_ids" in feeds:
                feeds["token_type_ids"][0, : len(ids)] = example["token_type_ids"]
            expected.append(np.array(example["outputs"]))
            received.append(next(iter(run(**feeds).values()))[0])
    except (RuntimeError, ValueError) as error:
        return {"refused": str(error)}
    expected, received = np.array(expected), np.array(received, np.float64)
    noise = np.square(expected - received).sum()
    same = (expected.argmax(-1) == received.argmax(-1)).mean()
    return {
        "same": float(same),
        "sqnr_db": 10 * float(np.log10(np.square(expected).sum() / max(noise, 1e-30))),
    }


if __name__ == "__main__":
    print(json.dumps(main(pathlib.Path(sys.argv[1]))))
