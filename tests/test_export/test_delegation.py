"""Partitions are counted as LiteRT makes them; a file that it cannot open takes nothing along."""

import pytest
import tensorflow as tf

import export
from tfdistill import cli, errors
from tfdistill.tflite import TfliteModel, editing, inspection
from tfdistill.tflite.xnnpack import Delegation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def convert(tmp_path_factory):
    """Converts functions of one float32 (1, 8), a signature for each."""

    def run(**functions):
        module = tf.Module()
        spec = tf.TensorSpec((1, 8), tf.float32, name="x")
        signatures = {
            name: tf.function(function, input_signature=[spec]).get_concrete_function()
            for name, function in functions.items()
        }
        folder = tmp_path_factory.mktemp("functions")
        tf.saved_model.save(module, str(folder), signatures=signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            str(folder), signature_keys=list(signatures)
        )
        (folder / "m.tflite").write_bytes(converter.convert())
        return folder / "m.tflite"

    return run


def two_chains(x):
    """CUMSUM is an operator that XNNPACK does not have."""
    return {"y": tf.sigmoid(tf.cumsum(tf.tanh(x * 2.0), axis=1)) - 1.0}


def no_chain(x):
    return {"y": tf.cumsum(tf.cumsum(x, axis=1), axis=1)}


def looping(x):
    def body(i, y):
        return i + 1.0, tf.cumsum(y)

    return {"y": tf.while_loop(lambda i, _: tf.reduce_sum(i) < 3.0, body, (x, x))[1]}


def test_chains_are_counted_but_of_a_signature_with_a_loop(convert):
    path = convert(two=two_chains, none=no_chain, loop=looping)
    with TfliteModel(path, isolated=True) as model:
        two, none = Delegation(5, 2, {"CUMSUM": 1}), Delegation(2, 0, {"CUMSUM": 2})
        assert model.delegations() == {"two": two, "none": none}
    report = export.inspect(path, open_it=True)
    assert report.fault is None
    partitions = {name: graph.partitions for name, graph in report.signatures.items()}
    assert partitions == {"two": 2, "none": 0, "loop": None}


def test_a_classifier_is_one_chain_but_for_the_look_up_of_ids_which_the_command_says(
    exported, capsys
):
    path = exported("dynamic_wi8_afp32").path
    for graph in export.inspect(path, open_it=True).signatures.values():
        assert graph.partitions == 1
        assert set(graph.left_operators) <= {"CAST", "GATHER"}
        assert sum(graph.left_operators.values()) <= 3
    assert cli.main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("  XNNPACK partitions 1, outside 2 GATHER") for line in lines) == 2
    assert cli.main(["inspect", str(path), "--static"]) == 0
    assert "XNNPACK" not in capsys.readouterr().out


def test_what_a_file_holds_is_shown_though_litert_cannot_open_it(exported, tmp_path):
    model = editing.read(exported("float32").path)
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 32
    model.operatorCodes[0].customCode = b"Unheard"
    editing.write(model, tmp_path / "m.tflite")
    report = export.inspect(tmp_path / "m.tflite", open_it=True)
    assert "Unheard" in report.fault
    assert "CUSTOM:Unheard" in report.signatures["len8"].operators
    assert "LiteRT cannot run it" in inspection.format_text(report)


@pytest.mark.parametrize(
    ("does", "timeout_s", "message"),
    [
        ("kill -SEGV $$", 60, "signal SIGSEGV"),
        ("echo oh >&2; exit 3", 60, "exit code 3. Its output: oh"),
        ("exec sleep 60", 0.3, "an answer within 0.3 s"),
    ],
)
def test_a_process_that_does_not_answer_is_told(does, timeout_s, message, exported, program):
    program(does)
    with pytest.raises(errors.ModelFileError, match=message):
        TfliteModel(exported("float32").path, isolated=True, timeout_seconds=timeout_s)
