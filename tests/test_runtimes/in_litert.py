"""LiteRT: {"model", "examples"} on stdin -> the outputs of each on stdout, by name.

Run by an arm64 Python under qemu-user, which has nothing of this project.
"""

import json
import platform
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

job = json.load(sys.stdin)
interpreter = Interpreter(job["model"], num_threads=1)
answers = []
for example in job["examples"]:
    inputs = {name: np.array([ids], np.int32) for name, ids in example["inputs"].items()}
    outputs = interpreter.get_signature_runner(example["signature"])(**inputs)
    answers.append({name: values.ravel().tolist() for name, values in outputs.items()})
print(json.dumps({"machine": platform.machine(), "answers": answers}))
