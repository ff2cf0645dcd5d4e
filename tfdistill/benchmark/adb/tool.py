"""`benchmark_model` on a device: its command line, the scripts that run it, what it is fed with.

It binds inputs by position: so all are named in the graph's order, and a different name in its
answer is an error. It writes all outputs one after the other, in the subgraph's order. That order
and the inputs' are known from the file alone. Ids that it makes up itself are no words: so values
always come from files. It applies XNNPACK on its own where no option mentions it, before any other
delegate, and a GPU then gets nothing and is still counted: so `--use_xnnpack` is always passed,
after the delegate that comes first.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import output
from tfdistill.benchmark.adb.binary import BenchmarkModelTool
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.backend import name_of
from tfdistill.benchmark.subjects import Subject
from tfdistill.io import files
from tfdistill.tflite import reader
from tfdistill.tflite.signature import Signature, Tensor

Feed = Mapping[str, Sequence[int]]
_DTYPES = ("float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
BINARY, RUN_FILE, ANSWER_FILE = "benchmark_model", "run.sh", "answer.sh"
OUTPUT_FILE, ANSWERS_FILE = "output.bin", "answers.bin"
LOG_FILE = "log.txt"
# The delegate that was asked for comes first; XNNPACK takes what a GPU or NNAPI leaves, as in apps.
_DELEGATES: Mapping[schema.Delegate, Sequence[str]] = {
    "none": ["--use_xnnpack=false"],
    "xnnpack": ["--use_xnnpack=true"],
    "gpu": ["--use_gpu=true", "--gpu_precision_loss_allowed=true", "--use_xnnpack=true"],
    "nnapi": ["--use_nnapi=true", "--use_xnnpack=true"],
}
_CHUNK = 16  # examples that are answered in one trip to the device
_TIDY_SECONDS = 30.0  # beyond the tool's own limit, for what it does before and after
# Both scripts: SCRIPT FOLDER FIRST LAST [FILE BYTES]... -- COMMAND...
_BEGIN = """\
cut_values() {  # example, then names of files and their sizes
  example=$1
  shift
  while [ $# -gt 0 ]; do
    dd "if=$1.all" "of=$1" "bs=$2" "skip=$example" count=1 2>dd.txt || { cat dd.txt; exit 125; }
    shift 2
  done
}
cd "$1" || exit 125
next=$2
last=$3
shift 3
files=
while [ "$1" != -- ]; do
  files="$files $1 $2"
  shift 2
done
shift
"""
# Cuts the first example's values out of each FILE.all into FILE, and becomes the command, so that
# who kills the script kills the tool.
RUN_SCRIPT = f"""\
{_BEGIN}
cut_values "$next" $files
exec "$@" </dev/null
"""
# The same for each example from the first up to the last, joining what the command wrote; prints at
# the end the log of the last one, and at the first that fails the log of that.
ANSWER_SCRIPT = f"""\
{_BEGIN}
while [ "$next" -lt "$last" ]; do
  cut_values "$next" $files
  rm -f {OUTPUT_FILE}
  "$@" </dev/null >{LOG_FILE} 2>&1
  code=$?
  if [ $code -ne 0 ]; then
    cat {LOG_FILE}
    exit $code
  fi
  cat {OUTPUT_FILE} >>{ANSWERS_FILE} || exit 125
  next=$((next + 1))
done
cat {LOG_FILE}
"""


@dataclasses.dataclass(frozen=True)
class SignatureLayout(Signature):
    """A signature as the tool sees it: all tensors of its subgraph, of static shapes."""

    num_signatures: int = 0  # how many the file has
    num_nodes: int = 0  # operators of the subgraph


def read_layout(path: files.Path, signature: Signature) -> SignatureLayout:
    """Checks that the tool can be given the tensors of a signature of a file.

    It cannot where a type is none that it reads from files, a shape is dynamic, or a name has a
    comma. A batch that is only known when the model runs is 1.
    """
    model = reader.read(path)
    graph = model.subgraphs[signature.subgraph]
    what = f"{pathlib.Path(path).name}, signature {signature.key}"
    if [tensor.index for tensor in signature.inputs] != list(graph.inputs):
        raise errors.BenchmarkError(
            f"inputs of {what}",
            f"those of its signature ({', '.join(tensor.name for tensor in signature.inputs)})",
            ", ".join(graph.tensors[index].name for index in graph.inputs),
            "`benchmark_model` feeds all inputs of the graph. Export the file again.",
        )
    unnamed = reader.unnamed_signature(model.subgraphs, signature.subgraph)
    named = {tensor.index: tensor for tensor in signature.outputs}
    return SignatureLayout(
        signature.key,
        signature.subgraph,
        tuple(_static(tensor, what) for tensor in signature.inputs),
        tuple(_static(named.get(t.index, t), what) for t in unnamed.outputs),
        signature.vocabulary_rows,
        num_signatures=len(model.signatures),
        num_nodes=len(graph.operators),
    )


def _static(tensor: Tensor, what: str) -> Tensor:
    shape = tensor.shape
    if shape[:1] == (-1,):
        shape = (1, *shape[1:])
    if tensor.dtype not in _DTYPES or "," in tensor.graph_name or any(size < 1 for size in shape):
        raise errors.BenchmarkError(
            f"tensor {tensor.graph_name!r} of {what}",
            "numbers of a static shape, and a name without a comma",
            f"{tensor.dtype}, shape {shape}",
            "`benchmark_model` cannot be given it. Export the file again.",
        )
    return dataclasses.replace(tensor, shape=shape)


def feed_of(layout: SignatureLayout, feed: Feed) -> list[np.ndarray]:
    """Pads one example to the length of an entry point.

    Returns one array an input, in the layout's order, of its dtype and shape.
    """
    ids = feed["input_ids"]
    if len(ids) > layout.sequence_length:
        raise errors.BenchmarkError(
            f"example for signature {layout.key}",
            f"at most {layout.sequence_length} tokens",
            len(ids),
            "Encode the examples for the file's own length.",
        )
    return layout.padded(ids, feed["token_type_ids"])


def split_outputs(layout: SignatureLayout, content: bytes) -> list[np.ndarray]:
    """Splits what the tool dumped into outputs, in the layout's order, of their full shapes."""
    arrays, at = [], 0
    for tensor in layout.outputs:
        part = content[at : at + tensor.num_bytes]
        arrays.append(np.frombuffer(part, tensor.dtype).reshape(tensor.shape))
        at += tensor.num_bytes
    return arrays


@dataclasses.dataclass(frozen=True)
class Deployed:
    """A file at one length, with examples, on the device."""

    graph: str  # the model file's name there
    layout: SignatureLayout  # of the entry point
    # prefix of the files that hold the examples, one for each input in the layout's order
    values: str
    num_examples: int  # how many

    @property
    def value_files(self) -> list[str]:
        """The names of the files that hold the inputs, in the layout's order."""
        return [f"{self.values}-{i}.bin" for i in range(len(self.layout.inputs))]

    @property
    def cuts(self) -> list[str]:
        """For the scripts: each of these files, and the bytes of an example in it."""
        files_of_tensors = zip(self.layout.inputs, self.value_files, strict=True)
        return [part for tensor, file in files_of_tensors for part in (file, str(tensor.num_bytes))]


@dataclasses.dataclass(frozen=True)
class ToolCommand:
    """One run of the tool, or one for each of some examples."""

    deployed: Deployed  # what it runs
    case: schema.BenchmarkCase  # with how many threads, which delegate, and on which cores
    runs: int = 50  # inferences that count
    warmup: int = 0  # inferences before them
    warmup_seconds: float = 0.0  # the least time that the warm-up takes
    max_seconds: float = 150.0  # the tool starts no further inference after so long
    dump: bool = False  # whether to write the outputs of the last inference
    memory: bool = False  # whether to watch the memory, which costs time

    @property
    def timeout_s(self) -> float:
        """The longest wait for a run: its own limit, and what comes before and after."""
        return self.max_seconds + (_TIDY_SECONDS if self.max_seconds >= _TIDY_SECONDS else 0.0)

    def arguments(self) -> list[str]:
        """Returns what runs the tool in the device's folder."""
        deployed, layout, case = self.deployed, self.deployed.layout, self.case
        arguments = [
            f"--graph={deployed.graph}",
            *_input_arguments(layout.inputs, deployed.value_files),
            f"--num_threads={case.threads}",
            f"--num_runs={self.runs}",
            "--min_secs=0",
            f"--max_secs={self.max_seconds:g}",
            f"--warmup_runs={self.warmup}",
            f"--warmup_min_secs={self.warmup_seconds:g}",
            *_DELEGATES[case.delegate],
        ]
        # Without it the tool runs the first graph. Releases before 2023 do not know it.
        if layout.num_signatures > 1 or layout.subgraph:
            arguments.append(f"--signature_to_run_for={layout.key}")
        if self.dump:
            arguments.append(f"--output_filepath={OUTPUT_FILE}")
        if self.memory:
            arguments.append("--report_peak_memory_footprint=true")
        pinned = [] if case.affinity is None else ["taskset", case.affinity]
        return [*pinned, f"./{BINARY}", *arguments]

    def script(self, file: str, folder: str, first: int, last: int) -> list[str]:
        """Returns what the device's shell runs: a script, for the examples from first to last."""
        script = ["sh", f"{folder}/{file}", folder, str(first), str(last)]
        return [*script, *self.deployed.cuts, "--", *self.arguments()]

    def coverage(self, printed: output.Output) -> schema.Coverage | None:
        """Says how much of the graph the delegate took, see `output.coverage`."""
        layout = self.deployed.layout
        at = {"subgraph": layout.subgraph, "num_nodes": layout.num_nodes}
        return output.coverage(printed, self.case.delegate, **at)


def _input_arguments(tensors: Sequence[Tensor], value_files: Sequence[str]) -> list[str]:
    """The arguments for tensors in the graph's order, and the files of their values."""
    values = [
        f"{tensor.graph_name.replace(':', '::')}:{file}"
        for tensor, file in zip(tensors, value_files, strict=True)
    ]
    return [
        f"--input_layer={','.join(tensor.graph_name for tensor in tensors)}",
        f"--input_layer_shape={':'.join(','.join(map(str, t.shape)) for t in tensors)}",
        f"--input_layer_value_files={','.join(values)}",
    ]


class Deployment:
    """A folder of a device with the tool, its scripts, and the files that it runs."""

    def __init__(self, phone: Phone, folder: str, binary: BenchmarkModelTool) -> None:
        self._phone, self._folder = phone, folder
        self._graphs: dict[str, str] = {}
        self._sets = 0
        phone.push(binary.path, f"{folder}/{BINARY}")
        phone.shell(["chmod", "755", f"{folder}/{BINARY}"])
        phone.write(f"{folder}/{RUN_FILE}", RUN_SCRIPT.encode())
        phone.write(f"{folder}/{ANSWER_FILE}", ANSWER_SCRIPT.encode())

    def put(self, subject: Subject, layout: SignatureLayout, feeds: Sequence[Feed]) -> Deployed:
        """Pushes a model, if it is not there yet, and examples for one of its lengths."""
        if subject.name not in self._graphs:
            graph = f"model{len(self._graphs)}.tflite"
            self._phone.push(subject.file, f"{self._folder}/{graph}")
            self._graphs[subject.name] = graph
        values, self._sets = f"values{self._sets}", self._sets + 1
        deployed = Deployed(self._graphs[subject.name], layout, values, len(feeds))
        rows = [feed_of(layout, feed) for feed in feeds]
        for i, file in enumerate(deployed.value_files):
            content = b"".join(row[i].tobytes() for row in rows)
            self._phone.write(f"{self._folder}/{file}.all", content)
        return deployed

    def run(self, command: ToolCommand, example: int) -> output.Output:
        """Runs the tool once on one of the examples, which are gone round."""
        first = example % command.deployed.num_examples
        return self._output(command, RUN_FILE, first, first + 1, name_of(command.case))

    def answers(self, command: ToolCommand) -> list[list[np.ndarray]]:
        """Runs the tool once for each example.

        Returns for each its outputs, in the layout's order, of their full shapes.
        """
        number = command.deployed.num_examples
        firsts = range(0, number, _CHUNK)
        chunks = (self._chunk(command, first, min(first + _CHUNK, number)) for first in firsts)
        return [outputs for chunk in chunks for outputs in chunk]

    def _chunk(self, command: ToolCommand, first: int, last: int) -> list[list[np.ndarray]]:
        remote, layout = f"{self._folder}/{ANSWERS_FILE}", command.deployed.layout
        what = f"{name_of(command.case)}, answers"
        self._phone.shell(["rm", "-f", remote])
        command.coverage(self._output(command, ANSWER_FILE, first, last, what))
        content = self._phone.read(remote)
        size = sum(tensor.num_bytes for tensor in layout.outputs)
        if len(content) != size * (last - first):
            raise errors.BenchmarkError(
                f"outputs of {what}",
                f"{last - first} times {size} bytes",
                f"{len(content)} bytes",
                "Is the storage of the device full?",
            )
        return [
            split_outputs(layout, content[at : at + size]) for at in range(0, len(content), size)
        ]

    def _output(
        self, command: ToolCommand, script: str, first: int, last: int, what: str
    ) -> output.Output:
        arguments = command.script(script, self._folder, first, last)
        done = self._phone.shell(arguments, timeout_s=command.timeout_s, check=False)
        return output.parse(done.printed, what=what, exit_code=done.exit_code)
