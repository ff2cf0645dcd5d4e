import numpy as np
import pytest
import tiny_tflite
from ai_edge_litert import schema_py_generated as schema

from tfdistill import cli, errors
from tfdistill.benchmark import host
from tfdistill.tflite import TfliteModel, editing, inspect, reader, roles
from tfdistill.tflite.reader import text


def test_the_table_is_found_by_following_the_ids_to_their_lookup(tflite_files):
    model = reader.read(tflite_files / "fast.tflite")
    signature = model.signatures[0]
    rows = {
        tensor.name: roles._table_rows(model.subgraphs[signature.subgraph], tensor.index)
        for tensor in signature.inputs
    }
    assert rows == {"input_ids": 90, "token_type_ids": 2, "attention_mask": None}


@pytest.mark.shared_data
def test_a_published_file_without_signatures_is_understood(shared_data):
    path = shared_data / "tflite" / "average_word_vec_sst2.tflite"
    (entry,) = roles.read_signatures(path).values()
    assert (entry.key, entry.sequence_length, entry.vocabulary_rows) == (None, 256, 10003)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("serving_default_input_word_ids:0", "input_ids"),
        ("ids", "input_ids"),
        ("serving_default_input_mask:0", "attention_mask"),
        ("segment_ids", "token_type_ids"),
        ("input_type_ids", "token_type_ids"),
        ("token_type_ids", "token_type_ids"),
        ("x", None),
    ],
)
def test_the_role_of_an_input_follows_from_its_name(name, role):
    assert roles.role_of(name) == role


def test_a_file_that_cannot_be_read_is_explained(tmp_path, tflite_files):
    with pytest.raises(errors.BenchmarkError):
        roles.read_signatures(tmp_path / "none.tflite")
    content = (tflite_files / "fast.tflite").read_bytes()
    damaged = tmp_path / "damaged.tflite"
    for wrong in (b"", b"not a model at all", content[:12], content[:8] + bytes(200)):
        damaged.write_bytes(wrong)
        with pytest.raises(errors.BenchmarkError, match=r"damaged\.tflite"):
            roles.read_signatures(damaged)


ARGS = {"args_0": "input_ids", "args_1": "attention_mask", "args_2": "token_type_ids"}


def test_a_file_of_litert_torch_answers_and_is_measured_at_a_batch_of_one(tflite_files):
    file = tflite_files / "foreign.tflite"
    with pytest.raises(errors.BenchmarkError):
        roles.read_signatures(file)
    (signature,) = roles.read_signatures(file, roles=ARGS).values()
    assert {tensor.role: tensor.shape for tensor in signature.inputs} == dict.fromkeys(
        roles.ROLES, (-1, 8)
    )
    expected = TfliteModel(tflite_files / "fast.tflite").predict([2, 9, 17, 3], [0, 0, 1, 1])
    answer = TfliteModel(file, roles=ARGS).predict([2, 9, 17, 3], [0, 0, 1, 1])
    # The converter may sum in another order.
    np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
    measured = host.quick_benchmark(file, runs=3, min_seconds=0, roles=ARGS)
    assert [*measured["p50_ms"]] == [8]
    options = ["--runs", "3", "--min-seconds", "0", "--repetitions", "1"]
    named = ",".join(f"{name}={role}" for name, role in ARGS.items())
    assert cli.main(["benchmark", str(file), "--roles", named, *options]) == 0


def test_inputs_of_one_name_are_told_apart_by_their_position(tflite_files, tmp_path):
    tree = editing.read(tflite_files / "fast.tflite")
    editing.keep_signature(tree, "len8")
    (graph,) = tree.subgraphs
    order = [text(graph.tensors[i].name) for i in graph.inputs]
    for i in graph.inputs:
        graph.tensors[i].name = b"x"
    tree.signatureDefs = []
    editing.write(tree, tmp_path / "m.tflite")
    of_name = {role: str(i) for i, name in enumerate(order) for role in roles.ROLES if role in name}
    positions = {position: role for role, position in of_name.items()}
    assert len(positions) == 3
    report = inspect(tmp_path / "m.tflite")
    assert [tensor.name for tensor in report.graphs[0].inputs] == ["x"] * 3
    with pytest.raises(errors.BenchmarkError, match="Name inputs of one name by their position"):
        roles.read_signatures(tmp_path / "m.tflite", roles={"x": "input_ids"})
    for isolated in (False, True):
        with TfliteModel(tmp_path / "m.tflite", roles=positions, isolated=isolated) as model:
            answer = model.predict([2, 9, 17, 3], [0, 0, 1, 1])
        expected = TfliteModel(tflite_files / "fast.tflite").predict([2, 9, 17, 3], [0, 0, 1, 1])
        np.testing.assert_array_equal(answer, expected)


@pytest.mark.parametrize("name", ["nosuch", "0", "input_ids"])
def test_the_role_of_an_output_that_the_file_lacks_is_refused(name, tflite_files):
    file = tflite_files / "fast.tflite"
    assert roles.read_signatures(file, roles={"logits": "logits"}) == roles.read_signatures(file)
    with pytest.raises(errors.BenchmarkError, match=f"--roles of logits, received {name}=logits"):
        roles.read_signatures(file, roles={name: "logits"})


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 16), (8,), (2, 8)])
def test_an_input_of_another_shape_than_the_ids_is_refused(shape, tmp_path):
    key, inputs, outputs = tiny_tflite.bert(8)
    wrong = [
        ("attention_mask", name, kind, shape) if "mask" in role else (role, name, kind, old)
        for role, name, kind, old in inputs
    ]
    file = tiny_tflite.write(tmp_path / "m.tflite", [(key, wrong, outputs)])
    with pytest.raises(errors.BenchmarkError, match=r"attention_mask: expected \(1, 8\)"):
        roles.read_signatures(file)


@pytest.mark.parametrize(
    ("text_of_roles", "message"),
    [
        ("", "NAME=ROLE"),
        ("a", "input_ids, attention_mask"),
        ("a=input_ids,a=logits", "once"),
        ("a=ids", "input_ids"),
    ],
)
def test_roles_of_another_form_are_refused(text_of_roles, message):
    with pytest.raises(errors.ConfigError, match=message):
        roles.parse(text_of_roles)


def test_a_file_that_litert_cannot_run_fails_its_inspection(tflite_files, tmp_path, capsys):
    tree = editing.read(tflite_files / "fast.tflite")
    code = tree.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = b"Unheard"
    editing.write(tree, tmp_path / "m.tflite")
    assert cli.main(["inspect", str(tmp_path / "m.tflite")]) == 1
    assert "LiteRT cannot run it" in capsys.readouterr().out
    assert cli.main(["inspect", str(tmp_path / "m.tflite"), "--static"]) == 0
    assert cli.main(["inspect", str(tflite_files / "fast.tflite")]) == 0
