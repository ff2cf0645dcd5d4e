"""Units of work on a Flink cluster: a job manager, a task manager and SDK workers, on loopback.

The files are those of one machine. A worker that is killed costs a restart, or the job where the
cluster's configuration allows none, and then a second call does the rest. This takes minutes; the
jars come from flink/pom.xml, and TFDISTILL_FLINK names their folder.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
import toys

from tfdistill import models, weights

pytestmark = [pytest.mark.flink, pytest.mark.thorough]

ROOT = pathlib.Path(__file__).parents[2]
OPENED = ("lang", "util", "nio", "net", "time", "lang.invoke", "util.concurrent")
JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
CONFIGURATION = """\
jobmanager.rpc.address: localhost
jobmanager.rpc.port: {rpc}
rest.address: localhost
rest.bind-address: localhost
rest.port: {rest}
taskmanager.host: localhost
taskmanager.numberOfTaskSlots: 2
taskmanager.cpu.cores: 2
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 64m
taskmanager.memory.managed.size: 64m
taskmanager.memory.network.min: 32m
taskmanager.memory.network.max: 32m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 128m
taskmanager.memory.jvm-overhead.max: 128m
"""
RESTARTS = """\
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 5
restart-strategy.fixed-delay.delay: 2 s
"""
NO_RESTARTS = "restart-strategy.type: none\n"


def free_ports(count):
    opened = [socket.socket() for _ in range(count)]
    for one in opened:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in opened]
    for one in opened:
        one.close()
    return ports


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if result := what():
                return result
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"nothing after {seconds} s")


def answers_at(port):
    with socket.create_connection(("127.0.0.1", port), 1):
        return True


def environment():
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}


class Cluster:
    """Options of Beam that lead to it, and its pool of workers."""

    def __init__(self, options, pool):
        self.options, self.pool = options, pool

    def workers(self):
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.pool.pid)], capture_output=True, text=True
        )
        return [int(pid) for pid in listed.stdout.split()]


@pytest.fixture(scope="module", params=[RESTARTS], ids=["restarts"])
def cluster(request, tmp_path_factory):
    """One at a time; its parameter says what it does about a task that fails."""
    root = tmp_path_factory.mktemp("flink")
    rpc, rest, job, artifact, pool = free_ports(5)
    (root / "config.yaml").write_text(CONFIGURATION.format(rpc=rpc, rest=rest) + request.param)
    jars = pathlib.Path(os.environ["TFDISTILL_FLINK"]).resolve()
    assert list(jars.glob("beam-runners-flink-*.jar")), f"{jars} lacks the jars of flink/pom.xml"
    java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java += [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]
    java += ["--add-opens=java.base/sun.net.util=ALL-UNNAMED", "-cp", f"{jars}/*"]
    ports = [f"--job-port={job}", f"--artifact-port={artifact}", "--expansion-port=-1"]
    places = [f"--flink-master=localhost:{rest}", f"--artifacts-dir={root / 'artifacts'}"]
    commands = {
        "job-manager": [*java, JOB_MANAGER, "--configDir", str(root)],
        "task-manager": [*java, TASK_MANAGER, "--configDir", str(root)],
        "job-server": [*java, JOB_SERVER, *ports, *places],
        "pool": [
            *(sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"),
            f"--service_port={pool}",
        ],
    }
    started = {}
    try:
        for name, command in commands.items():
            with open(root / f"{name}.log", "wb") as log:
                started[name] = subprocess.Popen(
                    command, stdout=log, stderr=log, env=environment(), start_new_session=True
                )

        def is_ready():
            with urllib.request.urlopen(f"http://localhost:{rest}/overview", timeout=5) as page:
                ready = json.load(page)["taskmanagers"] == 1
            return ready and answers_at(job) and answers_at(artifact) and answers_at(pool)

        wait_for(is_ready)
        options = ["--runner", "PortableRunner", f"--job_endpoint=localhost:{job}"]
        options += [f"--artifact_endpoint=localhost:{artifact}", "--parallelism=2"]
        options += ["--environment_type=EXTERNAL", f"--environment_config=localhost:{pool}"]
        yield Cluster(options, started["pool"])
    finally:
        for process in started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, toy_vocab_file):
    """Text, a task, and a teacher and a masked language model of random weights."""
    root = tmp_path_factory.mktemp("inputs")
    random = np.random.default_rng(5)
    words = ["good", "bad", "film", "story", "seven", "playing"]
    lines = [" ".join(random.choice(words, size=8)) + "." for _ in range(4500)]
    documents = ["\n".join(lines[start : start + 3]) for start in range(0, len(lines), 3)]
    (root / "many.txt").write_text("\n\n".join(documents))
    (root / "few.txt").write_text("\n\n".join(documents[:20]))
    (root / "data").mkdir()
    for split in ("train", "dev"):
        rows = [f"{line}\t{random.choice(['good', 'bad'])}" for line in lines[:6]]
        (root / "data" / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    size = len(toy_vocab_file.read_text().splitlines())
    config = toys.SHALLOW_STUDENT.replace(vocab_size=size, max_positions=40)
    masked = toys.randomise(models.build_masked_lm(config), 0)
    weights.save_hf(masked, root / "masked", tokenizer=toy_vocab_file)
    teacher = toys.classifier(config, 2)
    weights.save_hf(teacher, root / "teacher", labels=("bad", "good"), tokenizer=toy_vocab_file)
    task = ["--task", "films", "--data-dir", str(root / "data"), "--text-column", "text"]
    task += ["--label-column", "label"]
    shards = ["--vocab", str(toy_vocab_file), "--max-length", "24", "--shard-mb", "0.0005"]
    return {
        "shards": ["data", "prepare", str(root / "few.txt"), *shards],
        "many shards": ["data", "prepare", str(root / "many.txt"), *shards],
        "augmentation": ["data", "augment", "--masked-lm", str(root / "masked"), *task],
        "answers": ["answers", str(root / "teacher"), *task],
    }


def start(command):
    command = [sys.executable, "-m", "tfdistill", *command]
    return subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process, *, succeeds=True):
    said = process.communicate(timeout=400)[0]
    assert (process.returncode == 0) == succeeds, said
    return said


def contents(path):
    files = [path] if path.is_file() else path.iterdir()
    return {file.name: file.read_bytes() for file in files if not file.name.endswith(".fault")}


@pytest.mark.parametrize("what", ["shards", "augmentation", "answers"])
def test_the_files_are_those_of_this_machine(what, cluster, inputs, tmp_path):
    for place, options in (("here", []), ("there", cluster.options)):
        (tmp_path / place).mkdir()
        out = tmp_path / place / ("out.jsonl" if what == "answers" else "out")
        finish(start([*inputs[what], "--out", str(out), *options]))
    here, there = (contents(tmp_path / place / out.name) for place in ("here", "there"))
    assert here == there and sum(map(len, here.values())) > 100


def kill_workers(cluster, out):
    """Kills all workers once the first shard is there."""
    wait_for(lambda: any(out.glob("part-*.tfrecord")))
    workers = cluster.workers()
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    assert workers


@pytest.fixture(scope="module")
def many_shards(inputs, tmp_path_factory):
    """The shards that this machine writes, and the command without its folder."""
    out = tmp_path_factory.mktemp("here") / "shards"
    finish(start([*inputs["many shards"], "--out", str(out)]))
    return contents(out), [*inputs["many shards"], "--out"]


def test_a_killed_worker_is_replaced_under_a_restart_strategy(cluster, many_shards, tmp_path):
    here, command = many_shards
    running = start([*command, str(tmp_path / "there"), *cluster.options])
    kill_workers(cluster, tmp_path / "there")
    finish(running)
    assert contents(tmp_path / "there") == here


@pytest.mark.parametrize("cluster", [NO_RESTARTS], ids=["no restarts"], indirect=True)
def test_without_one_the_command_fails_and_resume_does_the_rest(cluster, many_shards, tmp_path):
    here, command = many_shards
    out = tmp_path / "there"
    running = start([*command, str(out), *cluster.options])
    kill_workers(cluster, out)
    said = finish(running, succeeds=False)
    assert "Traceback" not in said and "--resume" in said
    # A shard without its entry is not done: its worker was killed between the two.
    done = {entry.stem for entry in out.glob("*/part-*.json")}
    shards = [path for path in out.glob("part-*.tfrecord") if path.stem in done]
    before = {path.name: path.stat().st_mtime_ns for path in shards}
    assert 0 < len(before) < len(here) - 1  # some of the work, and not all of it, was done
    finish(start([*command, str(out), "--resume", *cluster.options]))
    assert contents(out) == here
    assert all((out / name).stat().st_mtime_ns == time for name, time in before.items())
