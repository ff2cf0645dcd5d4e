"""The command line: what a file's tensors are called, in which order, and who computes."""

import dataclasses
import subprocess

import numpy as np
import pytest
import tiny_tflite

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import binary, phone, tool
from tfdistill.tflite import roles


def read(path, length):
    return tool.read_layout(path, roles.read_signatures(path)[length])


@pytest.fixture
def two_lengths(tmp_path):
    return tiny_tflite.write(tmp_path / "m.tflite", [tiny_tflite.bert(8), tiny_tflite.bert(16)])


def job_for(path, length=16, **more):
    layout = dataclasses.replace(read(path, length), **more.pop("layout", {}))
    deployed = tool.Deployed("model0.tflite", layout, "v", 4)
    settings = {name: more.pop(name) for name in ("delegate", "affinity") if name in more}
    case = schema.BenchmarkCase(model="m", sequence_length=length, threads=2, **settings)
    return tool.ToolCommand(deployed, case, **more)


def test_a_layout_is_that_of_the_signatures_own_graph_or_of_its_tensors(two_lengths, tmp_path):
    layout = read(two_lengths, 16)
    assert (layout.key, layout.num_signatures) == ("len16", 2)
    assert (layout.subgraph, layout.num_nodes) == (1, 3)
    assert [t.role for t in layout.inputs] == ["token_type_ids", "input_ids", "attention_mask"]
    assert layout.inputs[1].graph_name == "len16_input_ids:0"
    assert layout.inputs[1].num_bytes == 64
    assert (layout.outputs[0].name, layout.outputs[0].shape) == ("logits", (1, 3))
    _, inputs, outputs = tiny_tflite.bert(8)
    path = tiny_tflite.write(tmp_path / "m.tflite", [(None, inputs, outputs)])
    layout = read(path, 8)
    assert (layout.key, layout.num_signatures, layout.subgraph) == (None, 0, 0)
    assert [t.name for t in layout.outputs] == ["StatefulCall:0"]


def test_an_input_that_the_signature_does_not_have_is_refused(tmp_path):
    key, inputs, outputs = tiny_tflite.bert(8)
    path = tiny_tflite.write(tmp_path / "m.tflite", [(key, inputs, outputs)])
    entry = roles.read_signatures(path)[8]
    entry = dataclasses.replace(entry, inputs=entry.inputs[1:])
    with pytest.raises(errors.BenchmarkError, match="feeds all inputs of the graph"):
        tool.read_layout(path, entry)


@pytest.mark.parametrize("change", ["comma", "dynamic", "string"])
def test_a_tensor_that_the_tool_cannot_be_given_is_refused(tmp_path, change):
    key, inputs, _ = tiny_tflite.bert(8)
    output = {
        "comma": ("logits", "a,b", tiny_tflite.FLOAT32, (1, 3)),
        "dynamic": ("logits", "a", tiny_tflite.FLOAT32, (1, 3), (1, -1)),
        "string": ("logits", "a", 5, (1, 3)),
    }[change]
    path = tiny_tflite.write(tmp_path / "m.tflite", [(key, inputs, [output])])
    with pytest.raises(errors.BenchmarkError, match="cannot be given it"):
        read(path, 8)


def test_the_command_line_names_inputs_in_the_order_of_the_graph_and_bounds_the_runs(two_lengths):
    job = job_for(two_lengths, runs=7, warmup=3, warmup_seconds=0.5, max_seconds=90)
    assert job.arguments() == [
        "./benchmark_model",
        "--graph=model0.tflite",
        "--input_layer=len16_token_type_ids:0,len16_input_ids:0,len16_attention_mask:0",
        "--input_layer_shape=1,16:1,16:1,16",
        "--input_layer_value_files=len16_token_type_ids::0:v-0.bin,len16_input_ids::0:v-1.bin,"
        "len16_attention_mask::0:v-2.bin",
        "--num_threads=2",
        "--num_runs=7",
        "--min_secs=0",
        "--max_secs=90",
        "--warmup_runs=3",
        "--warmup_min_secs=0.5",
        "--use_xnnpack=true",
        "--signature_to_run_for=len16",
    ]


PLAIN = ["./benchmark_model"]


@pytest.mark.parametrize(
    ("asked_for", "before", "behind"),
    [
        ({}, PLAIN, ["--use_xnnpack=true"]),  # the only signature is not named
        ({"delegate": "none"}, PLAIN, ["--use_xnnpack=false"]),
        (
            {"delegate": "gpu"},
            PLAIN,
            ["--use_gpu=true", "--gpu_precision_loss_allowed=true", "--use_xnnpack=true"],
        ),
        ({"delegate": "nnapi"}, PLAIN, ["--use_nnapi=true", "--use_xnnpack=true"]),
        ({"affinity": "f0"}, ["taskset", "f0", *PLAIN], ["--use_xnnpack=true"]),
        (
            {"layout": {"subgraph": 1}},
            PLAIN,
            ["--use_xnnpack=true", "--signature_to_run_for=len8"],
        ),
        (
            {"dump": True, "memory": True},
            PLAIN,
            [
                "--use_xnnpack=true",
                "--output_filepath=output.bin",
                "--report_peak_memory_footprint=true",
            ],
        ),
    ],
)
def test_the_command_line_has_what_was_asked_for(tmp_path, asked_for, before, behind):
    """XNNPACK is always spoken of, behind the delegate; nothing disturbs a measurement unasked."""
    path = tiny_tflite.write(tmp_path / "m.tflite", [tiny_tflite.bert(8)])
    usual = job_for(path, 8).arguments()[1:-1]
    assert job_for(path, 8, **asked_for).arguments() == [*before, *usual, *behind]


def test_feeds_are_padded_and_outputs_split_in_the_order_of_the_graph(two_lengths, tmp_path):
    feed = {"input_ids": [2, 7, 3], "token_type_ids": [0, 1, 1]}
    types, ids, mask = tool.feed_of(read(two_lengths, 8), feed)
    assert ids.tolist() == [[2, 7, 3, 0, 0, 0, 0, 0]] and ids.dtype == np.dtype("<i4")
    assert mask.tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]]
    assert types.tolist() == [[0, 1, 1, 0, 0, 0, 0, 0]]
    with pytest.raises(errors.BenchmarkError, match="at most 8 tokens, received 9"):
        tool.feed_of(read(two_lengths, 8), {"input_ids": [1] * 9, "token_type_ids": [0] * 9})
    key, inputs, _ = tiny_tflite.bert(4)
    outputs = [
        ("start_logits", "b:0", tiny_tflite.FLOAT32, (1, 4)),
        ("end_logits", "a:0", tiny_tflite.FLOAT32, (1, 2)),
    ]
    path = tiny_tflite.write(tmp_path / "m.tflite", [(key, inputs, outputs)])
    content = np.arange(6, dtype="<f4").tobytes()
    first, second = tool.split_outputs(read(path, 4), content)
    assert (first.tolist(), second.tolist()) == ([[0, 1, 2, 3]], [[4, 5]])


class Scripts:
    """Runs the device's scripts in this machine's shell, with a command that joins its inputs."""

    def __init__(self, folder, job):
        self.folder, self.job = folder, job
        (folder / tool.RUN_FILE).write_text(tool.RUN_SCRIPT)
        (folder / tool.ANSWER_FILE).write_text(tool.ANSWER_SCRIPT)
        for i in range(3):
            rows = [np.full((1, 8), 10 * example + i, "<i4").tobytes() for example in range(4)]
            (folder / f"v-{i}.bin.all").write_bytes(b"".join(rows))
        program = folder / tool.BINARY
        program.write_text('#!/bin/sh\ncat v-1.bin >output.bin; echo "said $1"; exit $(cat code)\n')
        program.chmod(0o755)
        (folder / "code").write_text("0")

    def arguments(self, file, first, last=9):
        return self.job.script(file, str(self.folder), first, last)

    def run(self, arguments):
        return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def scripts(tmp_path, two_lengths):
    folder = tmp_path / "device"
    folder.mkdir()
    return Scripts(folder, job_for(two_lengths, 8))


def test_the_scripts_cut_the_examples_become_the_tool_and_join_its_answers(scripts):
    done = scripts.run(scripts.arguments(tool.ANSWER_FILE, 1, 4))
    assert (done.returncode, done.stdout) == (0, "said --graph=model0.tflite\n")
    values = np.fromfile(scripts.folder / tool.ANSWERS_FILE, "<i4").reshape(3, 8)
    assert values[:, 0].tolist() == [11, 21, 31]
    done = scripts.run(scripts.arguments(tool.RUN_FILE, 2))
    assert (done.returncode, done.stdout) == (0, "said --graph=model0.tflite\n")
    values = np.fromfile(scripts.folder / "output.bin", "<i4")
    assert values.tolist() == [21] * 8
    (scripts.folder / "code").write_text("7")
    assert scripts.run(scripts.arguments(tool.RUN_FILE, 2)).returncode == 7


def test_the_answer_script_ends_at_the_first_failure_and_says_it(scripts):
    (scripts.folder / "code").write_text("3")
    done = scripts.run(scripts.arguments(tool.ANSWER_FILE, 0, 4))
    assert (done.returncode, done.stdout) == (3, "said --graph=model0.tflite\n")
    assert not (scripts.folder / tool.ANSWERS_FILE).exists()


class Recorder:
    """A phone that takes everything, and whose tool always prints the same."""

    PRINTED = (
        "count=1 curr=9\ncount=5 curr=9\nInference timings in us: Init: 9, First inference: 9,"
    )

    def __init__(self):
        self.commands = []

    def push(self, local, remote):
        pass

    def write(self, remote, content):
        pass

    def shell(self, arguments, **_):
        self.commands.append(arguments)
        return phone.Completed(0, self.PRINTED, "")


def test_blocks_go_round_the_examples(two_lengths):
    device, job = Recorder(), job_for(two_lengths)  # of four examples
    program = binary.BenchmarkModelTool(two_lengths, "0" * 64, "x86_64")
    deployment = tool.Deployment(device, "/folder", program)  # pyright: ignore
    for example in (0, 3, 4, 9):
        assert deployment.run(job, example).block.n == 5
    runs = [command for command in device.commands if f"/folder/{tool.RUN_FILE}" in command]
    assert [command[3] for command in runs] == ["0", "3", "0", "1"]
