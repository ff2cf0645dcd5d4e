"""What all tests share: settings of the environment, and where the real data lies."""

import fcntl
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

# Before the first import of TensorFlow or transformers in any test.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # as the command line does
if "ONEDNN_MAX_CPU_ISA" in os.environ:  # TensorFlow's products in bfloat16 end the process then
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
if "PYTEST_XDIST_WORKER" in os.environ:  # one process a processor: more threads would only wait
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest

STARTED_S = time.monotonic()
DATA_VARIABLE = "TFDISTILL_DATA"
# Markers of tests that need what a variable names.
NAMED_INPUTS = {
    "shared_data": DATA_VARIABLE,
    "flink": "TFDISTILL_FLINK",
    "runtimes": "TFDISTILL_RUNTIMES",
}
WORDS = (
    *("the", "a", "it", "is", "not", "good", "bad", "film", "story", "play", "set", "an"),
    *("alarm", "for", "seven", "##s", "##ing", "##ed", "##ly", ".", ",", "?", "!", "'", "-"),
)

# Programs that tests send signals to inherit what is ignored here, as in the background of a shell.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, handler)


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="another order of files and tests")
    parser.addoption("--slow-of", metavar="LIST", help="slow tests: of these files, and the spine")
    parser.addoption("--slow-minutes", type=float, help="after these, of the slow tests the spine")


def pytest_collection_modifyitems(config, items):
    """Puts files with slow tests first; leaves out what was not asked for or has no data.

    A worker that begins a long file last would let the others wait.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    if (seed := config.getoption("shuffle")) is not None:
        generator = random.Random(seed)
        files = sorted({item.path for item in items})
        position = {path: number for number, path in enumerate(generator.sample(files, len(files)))}
        generator.shuffle(items)
        items.sort(key=lambda item: position[item.path])
    gc.collect()
    gc.freeze()  # TensorFlow's objects, which later collections need not look at
    gc.set_threshold(20_000, 10, 10)  # graphs are made of millions of objects, few of them garbage
    missing = [marker for marker, name in NAMED_INPUTS.items() if not os.environ.get(name)]
    without = {item for item in items if any(map(item.get_closest_marker, missing))}
    if (listing := config.getoption("slow_of")) is not None:
        files = {config.rootpath / name for name in pathlib.Path(listing).read_text().split()}
        without |= {
            item
            for item in items
            if item.get_closest_marker("slow")
            and not item.get_closest_marker("spine")
            and item.path not in files
        }
    if without:
        config.hook.pytest_deselected(items=list(without))
        items[:] = [item for item in items if item not in without]


def pytest_runtest_setup(item):
    """Skips slow tests when the time for them is up, so that CI ends on the slowest machine."""
    minutes = item.config.getoption("slow_minutes")
    slow = item.get_closest_marker("slow") and not item.get_closest_marker("spine")
    if slow and minutes is not None and time.monotonic() - STARTED_S > 60 * minutes:
        pytest.skip(f"{minutes:g} minutes for slow tests are over: scripts/nightly runs it")


@pytest.fixture(scope="session", autouse=True)
def graphs_as_they_are(request):
    """Leaves TensorFlow's rewriting of graphs and of Python source out, half the time of a toy.

    Toys run too few steps to earn it back, and no layer needs its source converted. Programs that
    tests start have all of it, as users do, and so have all tests where the thorough ones run.
    """
    if "tensorflow" not in sys.modules or not request.config.getoption("markexpr"):
        yield
        return
    import tensorflow as tf
    from tensorflow.python.autograph.core import ag_ctx

    os.environ["TOY_RUN_AS_IT_IS"] = "1"  # for toy_run.py as a program
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED):
        yield


@pytest.fixture(scope="session", autouse=True)
def converter_process():
    """Converts in the process of the tests: one of its own imports TensorFlow each time."""
    if "tensorflow" not in sys.modules:  # no collected test needs it
        yield None
        return
    from export.conversion import convert

    own_process = convert.run_in_child
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            convert, "run_in_child", lambda arguments, timeout_s=None: convert.run(arguments)
        )
        yield own_process


@pytest.fixture
def convert_in_child(converter_process, monkeypatch):
    """Converts in a process of its own, as users do."""
    if converter_process is not None:
        monkeypatch.setattr("export.conversion.convert.run_in_child", converter_process)


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data (glue/, vocab/, ...). What it lacks fails a test, never skips it."""
    folder = pathlib.Path(os.environ[DATA_VARIABLE]).resolve()
    assert folder.is_dir(), f"{DATA_VARIABLE} names {folder}, which is no folder"
    return folder


@pytest.fixture(scope="session")
def toy_vocab_file(tmp_path_factory):
    """A vocabulary: the special tokens, some words and pieces, ASCII letters and digits."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokens += [*letters, *("##" + letter for letter in letters)]
    path = tmp_path_factory.mktemp("toy") / "vocab.txt"
    path.write_text("\n".join(dict.fromkeys(tokens)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Makes a folder once for all workers: its name and what fills a new one -> the folder."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make(name, fill):
        folder = shared / f"once-{name}"
        with open(folder.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                unfinished = pathlib.Path(tempfile.mkdtemp(prefix=folder.name, dir=shared))
                fill(unfinished)
                unfinished.rename(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tflite_files(made_once):
    """A folder with fast.tflite and slow.tflite: lengths 8 and 16, a vocabulary of 90.

    TensorFlow writes them in a process of its own, unless it is here for other tests.
    """

    def write(folder):
        if "tensorflow" in sys.modules:
            from test_benchmark import make_models

            make_models.write_all(folder)
            return
        script = pathlib.Path(__file__).parent / "test_benchmark" / "make_models.py"
        command = [sys.executable, str(script), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]

    return made_once("tflite-files", write)


@pytest.fixture
def rng():
    """A seeded generator, new for each test."""
    return np.random.default_rng(20240607)
