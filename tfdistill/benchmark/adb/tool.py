"""The command line of `benchmark_model`, and the script that runs it on the device.

Three properties of the tool matter here. It applies XNNPACK on its own where no option
mentions it, before any other delegate, and a GPU then gets nothing and is still counted: so
`--use_xnnpack` is always given, after the delegate that comes first. It binds inputs by position:
so all are named in the graph's order, and a different name in its answer is an error. And ids that
it makes up itself are no words: so values always come from files.

LiteRT's second tool of the same name, that of its CompiledModel API, reads no values: it draws them
from a range for each input of the signature, and ignores a range of one value.
"""

from __future__ import annotations

import dataclasses

from tfdistill.benchmark import schema
from tfdistill.benchmark.adb.layout import SignatureLayout

BINARY, RUN_FILE, ANSWER_FILE = "benchmark_model", "run.sh", "answer.sh"
OUTPUT_FILE, ANSWERS_FILE, PROFILE_FILE = "output.bin", "answers.bin", "profile.csv"
LOG_FILE = "log.txt"

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
class ToolCommand:
    """One run of the tool, or one for each of some examples.

    Attributes:
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
      compiled: Whether the tool is that of the CompiledModel API.
      vocabulary_rows: For that tool: of the table that the ids are looked up in.
    """

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
    compiled: bool = False
    vocabulary_rows: int | None = None


def value_files(run: ToolCommand) -> list[str]:
    """Returns the names of the files that hold the inputs, in the layout's order."""
    return [f"{run.values}-{i}.bin" for i in range(len(run.layout.inputs))]


def command(run: ToolCommand) -> list[str]:
    """Returns the command that runs the tool in the device's folder."""
    arguments = [
        f"--graph={run.graph}",
        *(_compiled_inputs(run) if run.compiled else _inputs(run)),
        f"--num_threads={run.threads}",
        f"--num_runs={run.runs}",
        "--min_secs=0",
        f"--max_secs={run.max_seconds:g}",
        f"--warmup_runs={run.warmup}",
        f"--warmup_min_secs={run.warmup_seconds:g}",
    ]
    if not run.compiled:
        arguments += _delegates(run.delegate)
    elif run.delegate == "gpu":
        arguments.append("--use_gpu=true")
    # Without it the tool runs the first graph. Releases before 2023 do not know it.
    if run.compiled or run.layout.num_signatures > 1 or run.layout.subgraph:
        arguments.append(f"--signature_to_run_for={run.layout.signature}")
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


def _inputs(run: ToolCommand) -> list[str]:
    tensors = run.layout.inputs
    values = [
        f"{tensor.name.replace(':', '::')}:{file}"
        for tensor, file in zip(tensors, value_files(run), strict=True)
    ]
    return [
        f"--input_layer={','.join(tensor.name for tensor in tensors)}",
        f"--input_layer_shape={':'.join(','.join(map(str, t.shape)) for t in tensors)}",
        f"--input_layer_value_files={','.join(values)}",
    ]


def _compiled_inputs(run: ToolCommand) -> list[str]:
    """Ranges by the signature's names: ids of the vocabulary; 0 or 1 for masks and token types."""
    largest = {"input_ids": max((run.vocabulary_rows or 100) - 1, 1)}  # 0..99 by default
    ranges = [f"{t.label},0,{largest.get(t.role or '', 1)}" for t in run.layout.inputs]
    return [f"--input_layer_value_range={':'.join(ranges)}"]


def run_arguments(run: ToolCommand, folder: str, example: int) -> list[str]:
    """Returns what the device's shell runs for one example of the run's."""
    return ["sh", f"{folder}/{RUN_FILE}", folder, str(example), *_cuts(run), "--", *command(run)]


def answer_arguments(run: ToolCommand, folder: str, first: int, last: int) -> list[str]:
    """Returns what the device's shell runs for the examples from first up to last."""
    numbers = [str(first), str(last)]
    return ["sh", f"{folder}/{ANSWER_FILE}", folder, *numbers, *_cuts(run), "--", *command(run)]


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
