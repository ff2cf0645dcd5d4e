"""The command line of `benchmark_model`, what it needs of a file, and its scripts on the device.

Three properties of the tool matter here. It applies XNNPACK on its own where no option
mentions it, before any other delegate, and a GPU then gets nothing and is still counted: so
`--use_xnnpack` is always given, after the delegate that comes first. It binds inputs by position:
so all are named in the graph's order, and a different name in its answer is an error. And ids that
it makes up itself are no words: so values always come from files.

LiteRT's second tool of the same name, that of its CompiledModel API, reads no values: it draws them
from a range for each input of the signature, and ignores a range of one value.

It writes all outputs one after the other, in the subgraph's order. That order and the inputs' are
known from the file alone.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable

from tfdistill import errors, files
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import output
from tfdistill.tflite import reader
from tfdistill.tflite.signature import Signature, Tensor

_DTYPES = ("float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
BINARY, RUN_FILE, ANSWER_FILE = "benchmark_model", "run.sh", "answer.sh"
OUTPUT_FILE, ANSWERS_FILE, PROFILE_FILE = "output.bin", "answers.bin", "profile.csv"
LOG_FILE = "log.txt"
_TIDY_SECONDS = 30.0  # beyond the tool's own limit, for what it does before and after
_CUT = """\
cut_values() {  # example, then names of files and their sizes
  example=$1
  shift
  while [ $# -gt 0 ]; do
    dd "if=$1.all" "of=$1" "bs=$2" "skip=$example" count=1 2>dd.txt || { cat dd.txt; exit 125; }
    shift 2
  done
}
"""
# run.sh FOLDER EXAMPLE [FILE BYTES]... -- COMMAND...
# Cuts the example's values out of each FILE.all into FILE, and becomes the command, so that who
# kills the script kills the tool.
RUN_SCRIPT = f"""\
{_CUT}
cd "$1" || exit 125
example=$2
shift 2
files=
while [ "$1" != -- ]; do
  files="$files $1 $2"
  shift 2
done
shift
cut_values "$example" $files
exec "$@" </dev/null
"""
# answer.sh FOLDER FIRST LAST [FILE BYTES]... -- COMMAND...
# The same for each example from FIRST up to LAST, joining what the command wrote; prints at the
# end the log of the last one, and at the first that fails the log of that.
ANSWER_SCRIPT = f"""\
{_CUT}
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
    """A signature as the tool sees it: all tensors of its subgraph, of static shapes.

    Attributes:
      num_signatures: How many the file has.
      num_nodes: Operators of the subgraph.
    """

    num_signatures: int = 0
    num_nodes: int = 0


def read_layout(path: files.Path, signature: Signature) -> SignatureLayout:
    """Checks that the tool can be given the tensors of a signature.

    Args:
      path: A .tflite file.
      signature: One of its signatures, with the roles of its inputs.

    Returns:
      The layout; a batch that is only known when the model runs is 1.

    Raises:
      BenchmarkError: If the tool cannot be given the tensors: a type that it does not
        read from files, a dynamic shape, or a name with a comma.
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


@dataclasses.dataclass(frozen=True)
class ToolApi:
    """What LiteRT's two programs called `benchmark_model` take, do and print differently.

    Attributes:
      build: As results call it.
      notes: What a reader of its figures has to know.
      delegates: That it has.
      reads_files: Whether it reads its inputs from files, writes its outputs, profiles operators,
        and runs files without signatures.
      names_signature: Whether a signature has to be named even where it is the only one.
      inputs: The arguments for the inputs of a command.
      options: The arguments for a delegate.
      taken: What a delegate took, from what the tool printed.
    """

    build: str | None
    notes: tuple[str, ...]
    delegates: tuple[schema.Delegate, ...]
    reads_files: bool
    names_signature: bool
    inputs: Callable[[ToolCommand], list[str]]
    options: Callable[[schema.Delegate], list[str]]
    taken: Callable[[output.Output, str], output.Taken]

    def coverage(
        self, printed: output.Output, delegate: str, layout: SignatureLayout, *, what: str
    ) -> schema.Coverage | None:
        """Says how much of a graph a delegate took; None where none was asked for.

        Raises:
          BenchmarkError: If it took nothing.
        """
        if delegate == "none":
            return None
        taken, nodes = self.taken(printed, delegate), layout.num_nodes
        return output.coverage(
            printed, taken, delegate, subgraph=layout.subgraph, num_nodes=nodes, what=what
        )


@dataclasses.dataclass(frozen=True)
class ToolCommand:
    """One run of the tool, or one for each of some examples.

    Attributes:
      api: Of the tool.
      graph: The model file, a name in the device's folder.
      layout: Of the entry point.
      values: Prefix of the files that hold the inputs, one for each in the layout's order.
      threads: Of the runtime.
      delegate: Who computes.
      affinity: Hexadecimal mask of the cores to run on, without "0x"; None for all.
      runs: Inferences that count.
      warmup: Inferences before them.
      warmup_seconds: The least time that the warm-up takes.
      max_seconds: The tool starts no further inference after so long.
      dump: Whether to write the outputs of the last inference.
      profile: Whether to profile the operators, which costs time.
      memory: Whether to watch the memory, which costs time.
      vocabulary_rows: Of the table that the ids are looked up in, if known.
    """

    api: ToolApi
    graph: str
    layout: SignatureLayout
    values: str
    threads: int
    delegate: schema.Delegate
    affinity: str | None = None
    runs: int = 50
    warmup: int = 0
    warmup_seconds: float = 0.0
    max_seconds: float = 150.0
    dump: bool = False
    profile: bool = False
    memory: bool = False
    vocabulary_rows: int | None = None


def value_files(run: ToolCommand) -> list[str]:
    """Returns the names of the files that hold the inputs, in the layout's order."""
    return [f"{run.values}-{i}.bin" for i in range(len(run.layout.inputs))]


def command(run: ToolCommand) -> list[str]:
    """Returns the command that runs the tool in the device's folder."""
    arguments = [
        f"--graph={run.graph}",
        *run.api.inputs(run),
        f"--num_threads={run.threads}",
        f"--num_runs={run.runs}",
        "--min_secs=0",
        f"--max_secs={run.max_seconds:g}",
        f"--warmup_runs={run.warmup}",
        f"--warmup_min_secs={run.warmup_seconds:g}",
        *run.api.options(run.delegate),
    ]
    # Without it the tool runs the first graph. Releases before 2023 do not know it.
    if run.api.names_signature or run.layout.num_signatures > 1 or run.layout.subgraph:
        arguments.append(f"--signature_to_run_for={run.layout.key}")
    if run.dump:
        arguments.append(f"--output_filepath={OUTPUT_FILE}")
    if run.memory:
        arguments.append("--report_peak_memory_footprint=true")
    if run.profile:
        arguments += [
            "--enable_op_profiling=true",
            "--op_profiling_output_mode=csv",
            f"--op_profiling_output_file={PROFILE_FILE}",
        ]
    pinned = [] if run.affinity is None else ["taskset", run.affinity]
    return [*pinned, f"./{BINARY}", *arguments]


def _files(run: ToolCommand) -> list[str]:
    tensors = run.layout.inputs
    values = [
        f"{tensor.graph_name.replace(':', '::')}:{file}"
        for tensor, file in zip(tensors, value_files(run), strict=True)
    ]
    return [
        f"--input_layer={','.join(tensor.graph_name for tensor in tensors)}",
        f"--input_layer_shape={':'.join(','.join(map(str, t.shape)) for t in tensors)}",
        f"--input_layer_value_files={','.join(values)}",
    ]


def _ranges(run: ToolCommand) -> list[str]:
    """Ranges by the signature's names: ids of the vocabulary; 0 or 1 for masks and token types."""
    largest = {"input_ids": max((run.vocabulary_rows or 100) - 1, 1)}  # 0..99 by default
    ranges = [f"{t.name},0,{largest.get(t.role or '', 1)}" for t in run.layout.inputs]
    return [f"--input_layer_value_range={':'.join(ranges)}"]


def run_arguments(run: ToolCommand, folder: str, example: int) -> list[str]:
    """Returns what the device's shell runs for one example of the run's."""
    return ["sh", f"{folder}/{RUN_FILE}", folder, str(example), *_cuts(run), "--", *command(run)]


def answer_arguments(run: ToolCommand, folder: str, first: int, last: int) -> list[str]:
    """Returns what the device's shell runs for the examples from first up to last."""
    numbers = [str(first), str(last)]
    return ["sh", f"{folder}/{ANSWER_FILE}", folder, *numbers, *_cuts(run), "--", *command(run)]


def timeout_s(run: ToolCommand) -> float:
    """Returns the longest wait for a run: its own limit, and what comes before and after."""
    return run.max_seconds + (_TIDY_SECONDS if run.max_seconds >= _TIDY_SECONDS else 0.0)


def _cuts(run: ToolCommand) -> list[str]:
    return [
        part
        for tensor, file in zip(run.layout.inputs, value_files(run), strict=True)
        for part in (file, str(tensor.num_bytes))
    ]


def _delegates(delegate: schema.Delegate) -> list[str]:
    """The delegate asked for comes first; XNNPACK takes what a GPU or NNAPI leaves, as in apps."""
    if delegate == "none":
        return ["--use_xnnpack=false"]
    if delegate == "gpu":
        return ["--use_gpu=true", "--gpu_precision_loss_allowed=true", "--use_xnnpack=true"]
    if delegate == "nnapi":
        return ["--use_nnapi=true", "--use_xnnpack=true"]
    return ["--use_xnnpack=true"]


def _gpu_alone(delegate: schema.Delegate) -> list[str]:
    return ["--use_gpu=true"] if delegate == "gpu" else []


_NOTE = (
    "benchmark_model gives statistics of runs, not single durations: medians and tails are over "
    "blocks of inferences, each a process of its own."
)
INTERPRETER = ToolApi(
    build=None,
    notes=(_NOTE,),
    delegates=("none", "xnnpack", "gpu", "nnapi"),
    reads_files=True,
    names_signature=False,
    inputs=_files,
    options=_delegates,
    taken=output.taken_by_applied,
)
COMPILED_MODEL = ToolApi(
    build="CompiledModel API",
    notes=(
        _NOTE,
        "Measured with the benchmark_model of LiteRT's CompiledModel API: its inputs are random "
        "ids of the vocabulary, and its answers were not compared, since it writes none.",
    ),
    delegates=("xnnpack", "gpu"),
    reads_files=False,
    names_signature=True,
    inputs=_ranges,
    options=_gpu_alone,
    taken=output.taken_by_replacing,
)
