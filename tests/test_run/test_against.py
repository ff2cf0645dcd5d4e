"""A conversion by others is held against its Hugging Face folder; planted faults are all found.

The files are written by TensorFlow's converter with the names that litert-torch gives: args_0, ...
"""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import toys
from tfdistill import cli, errors, models, weights
from tfdistill.run import against, against_rounding
from tfdistill.tflite import agreement, editing, reader

pytestmark = pytest.mark.slow

LENGTH = 12
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
ROLES = {f"args_{i}": role for i, role in enumerate(INPUTS)}
LABELS = ("no", "maybe", "yes")


def config_of(vocab_size):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "max_positions": LENGTH + 4}
    return toys.STUDENT.replace(vocab_size=vocab_size, **sizes)


def shrink_embeddings(model):
    """Gives embeddings the size that BERT's have: there an epsilon of LayerNorm counts."""
    for name in ("word", "position", "token_type"):
        layer = model.get_layer(f"{name}_embeddings")
        layer.set_weights([0.1 * value for value in layer.get_weights()])
    return model


@pytest.fixture(scope="module")
def vocab(toy_vocab_file):
    return toy_vocab_file.read_text().splitlines()


@pytest.fixture(scope="module")
def folders(tmp_path_factory, toy_vocab_file, vocab):
    """A classifier, an encoder, and a model of spans: the models by the kind of head."""
    config, built = config_of(len(vocab)), {}
    makers = {
        "sequence": lambda: models.build_classifier(config, 3),
        "none": lambda: models.build_encoder(config),
        "span": lambda: models.build_span_classifier(config),
    }
    for number, (kind, make) in enumerate(makers.items()):
        model = shrink_embeddings(toys.randomise(make(), number))
        folder = tmp_path_factory.mktemp(kind) / "hf"
        labels = LABELS if kind == "sequence" else None
        weights.save_hf(model, folder, labels=labels, tokenizer=toy_vocab_file)
        built[kind] = folder, model
    return built


def convert(path, run, *, lengths=(LENGTH,), quantize=False):
    """Writes a file whose signatures take args_0, ... and give output_0, ..."""
    module, signatures = tf.Module(), {}
    for length in lengths:
        specs = [tf.TensorSpec((1, length), tf.int32, name=name) for name in ROLES]

        def call(args_0, args_1, args_2):
            outputs = run(args_0, args_1, args_2)
            return {f"output_{i}": output for i, output in enumerate(outputs)}

        function = tf.function(call, input_signature=specs, autograph=False)
        signatures[f"serving_{length}"] = function.get_concrete_function()
    module.held = [function.variables for function in signatures.values()]
    tf.saved_model.save(module, str(path.parent / "saved"), signatures=signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(path.parent / "saved"), signature_keys=list(signatures)
    )
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    path.write_bytes(converter.convert())
    return path


def logits_of(model):
    return lambda *features: [model(dict(zip(INPUTS, features, strict=True)), training=False)]


def copy_of(model, vocab, **changes):
    """The same weights in a model of another configuration, as far as it has the layers."""
    other = models.build_classifier(config_of(len(vocab)).replace(**changes), 3)
    for layer in other.layers:
        if layer.weights:
            layer.set_weights(model.get_layer(layer.name).get_weights())
    return other


def weight_fault(name, change):
    """A fault in one weight: `change` gets the arrays of a layer and changes them in place."""

    def plant(model, vocab):
        other = copy_of(model, vocab)
        arrays = other.get_layer(name).get_weights()
        change(arrays)
        other.get_layer(name).set_weights(arrays)
        return logits_of(other)

    return plant


def exchanged_matrices(model, vocab):
    other = copy_of(model, vocab)
    first, second = (other.get_layer(f"layer_{i}_query") for i in (0, 1))
    values = first.get_weights(), second.get_weights()
    first.set_weights(values[1])
    second.set_weights(values[0])
    return logits_of(other)


def exchange(array, axis, first, second):
    index = [slice(None)] * array.ndim
    order = np.arange(array.shape[axis])
    order[[first, second]] = order[[second, first]]
    index[axis] = order
    array[:] = array[tuple(index)]


def config_fault(**changes):
    return lambda model, vocab: logits_of(copy_of(model, vocab, **changes))


def input_fault(position, change):
    def plant(model, vocab):
        run = logits_of(model)

        def changed(*features):
            features = list(features)
            features[position] = change(features[position])
            return run(*features)

        return changed

    return plant


def output_fault(change):
    return lambda model, vocab: lambda *features: [change(logits_of(model)(*features)[0])]


def no_number_for_an_empty_text(model, vocab):
    def changed(ids, mask, types):
        [logits] = logits_of(model)(ids, mask, types)
        return [tf.where(tf.reduce_sum(mask) < 3, np.nan, logits)]

    return changed


FAULTS = {
    "matrices exchanged": exchanged_matrices,
    "matrix scaled": weight_fault("layer_0_value", lambda a: np.multiply(a[0], 1.01, out=a[0])),
    "matrix scaled by 1.00005": weight_fault(
        "layer_0_value", lambda a: np.multiply(a[0], 1.00005, out=a[0])
    ),
    "matrix zeroed": weight_fault("layer_1_key", lambda a: a[0].fill(0)),
    "matrix transposed": weight_fault("layer_0_key", lambda a: np.copyto(a[0], a[0].T.copy())),
    "one row of a table zeroed": weight_fault("word_embeddings", lambda a: a[0][33].fill(0)),
    "layer dropped": config_fault(num_layers=1),
    "epsilon": config_fault(layer_norm_eps=1e-5),
    "activation": config_fault(hidden_act="relu"),
    "activation by tanh": config_fault(hidden_act="gelu_tanh"),
    "heads": config_fault(num_heads=4),
    "no number for an empty text": no_number_for_an_empty_text,
    "mask ignored": input_fault(1, tf.ones_like),
    "token types ignored": input_fault(2, tf.zeros_like),
    "positions shifted": weight_fault(
        "position_embeddings", lambda a: np.copyto(a[0], np.roll(a[0], 1, axis=0))
    ),
    "lines of the vocabulary exchanged": weight_fault(
        "word_embeddings", lambda a: exchange(a[0], 0, 40, 41)
    ),
    "labels permuted": weight_fault(
        "classifier", lambda a: [exchange(value, -1, 0, 2) for value in a]
    ),
    "bias dropped": weight_fault("layer_1_value", lambda a: a[1].fill(0)),
    "bias of the classifier dropped": weight_fault("classifier", lambda a: a[1].fill(0)),
    "LayerNorm's scale dropped": weight_fault("layer_1_layer_norm", lambda a: a[0].fill(1)),
    "softmax inside": output_fault(tf.nn.softmax),
    "clipped": output_fault(lambda logits: tf.clip_by_value(logits, -1.0, 1.0)),
}
USUAL = (  # the others vary these
    *("matrix scaled by 1.00005", "no number for an empty text", "mask ignored"),
    "labels permuted",
)


def compare(path, folder, **options):
    options.setdefault("tensor_roles", {**ROLES, "output_0": "logits"})
    return against.compare_with_folder(path, folder, **options)


def test_scores_agree_at_the_temperature_that_is_inside(folders, tmp_path):
    folder, model = folders["sequence"]
    run = logits_of(model)
    file = convert(tmp_path / "m.tflite", lambda *args: [tf.nn.softmax(run(*args)[0] / 1.7)])
    options = {"tensor_roles": {**ROLES, "output_0": "scores"}}
    assert compare(file, folder, temperature=1.7, **options).faults == ()
    assert compare(file, folder, **options).faults
    assert compare(file, folder, temperature=1.701, **options).faults


def test_a_right_conversion_agrees_at_each_length(folders, vocab, tmp_path):
    folder, model = folders["sequence"]
    file = convert(tmp_path / "m.tflite", logits_of(model), lengths=(8, LENGTH))
    compared = compare(file, folder)
    assert (compared.faults, compared.lengths, compared.num_words) == ((), (8, LENGTH), len(vocab))
    (parity,) = compared.outputs
    assert parity["agreement"].sqnr_db > 100  # float32 sums in another order
    assert parity["agreement"].argmax_agreement == 1.0
    assert len(compared.worst) == 3
    assert compared.worst[0]["tokens"][0] == "[CLS]"
    assert "agrees on" in against.format_text(compared)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=[] if name in USUAL else pytest.mark.thorough) for name in FAULTS],
)
def test_a_planted_fault_is_found(fault, folders, vocab, tmp_path):
    folder, model = folders["sequence"]
    file = convert(tmp_path / "m.tflite", FAULTS[fault](model, vocab))
    compared = compare(file, folder)
    assert any(line.startswith("output_0: ") for line in compared.faults)
    assert "DIFFERS" in against.format_text(compared)


@pytest.mark.parametrize("scale", [None, 2.0])
def test_a_wrong_scale_of_a_quantized_matrix_is_found(scale, folders, tmp_path):
    folder, model = folders["sequence"]
    file = convert(tmp_path / "m.tflite", logits_of(model), quantize=True)
    tree = editing.read(file)
    (graph,) = tree.subgraphs
    matrices = [
        tensor
        for tensor in graph.tensors
        if editing.dtype_of(tensor) == "int8" and np.size(tree.buffers[tensor.buffer].data) >= 1024
    ]
    assert matrices  # the file is quantized
    if scale is not None:
        chosen = matrices[0].quantization  # of a product: a table's own scale is not read
        chosen.scale = [scale * value for value in chosen.scale]
        editing.write(tree, file)
    assert bool(compare(file, folder).faults) is (scale is not None)


@pytest.mark.parametrize("fault", [None, "pooling", "layer", "exchanged"])
def test_an_encoder_is_compared_by_its_states(fault, folders, tmp_path):
    folder, model = folders["none"]

    def run(*features):
        outputs = model(dict(zip(INPUTS, features, strict=True)), training=False)
        states, pooled = outputs["sequence_output"], outputs["pooled_output"]
        if fault == "pooling":
            pooled = tf.reduce_mean(states, axis=1)
        if fault == "layer":
            states = states * 1.001
        return [states, pooled]

    file = convert(tmp_path / "m.tflite", run)
    named = {"output_0": "last_hidden_state", "output_1": "pooler_output"}
    if fault == "exchanged":
        named = {"output_1": "last_hidden_state", "output_0": "pooler_output"}
        with pytest.raises(errors.BenchmarkError, match=r"expected \(12, 32\), received \(32,\)"):
            compare(file, folder, tensor_roles=ROLES | named)
        return
    compared = compare(file, folder, tensor_roles=ROLES | named)
    wrong = {line.split(":")[0] for line in compared.faults}
    assert wrong == {None: set(), "pooling": {"output_1"}, "layer": {"output_0"}}[fault]


@pytest.mark.parametrize("exchanged", [False, True])
def test_exchanged_starts_and_ends_are_found(exchanged, folders, tmp_path):
    folder, model = folders["span"]

    def run(*features):
        outputs = model(dict(zip(INPUTS, features, strict=True)), training=False)
        return tf.unstack(outputs, axis=-1)[:: -1 if exchanged else 1]

    file = convert(tmp_path / "m.tflite", run)
    named = {"output_0": "start_logits", "output_1": "end_logits"}
    assert bool(compare(file, folder, tensor_roles=ROLES | named).faults) is exchanged


def test_roles_are_never_guessed(folders, tmp_path):
    folder, model = folders["sequence"]
    file = convert(tmp_path / "m.tflite", logits_of(model))
    with pytest.raises(errors.BenchmarkError):
        compare(file, folder, tensor_roles={})
    with pytest.raises(errors.BenchmarkError, match="--roles output_0=logits"):
        compare(file, folder, tensor_roles=ROLES)
    inputs = reader.read(file).signatures[0].inputs
    by_position = {str(i): ROLES[tensor.name] for i, tensor in enumerate(inputs)}
    assert compare(file, folder, tensor_roles=by_position | {"output_0": "logits"}).faults == ()


def test_what_the_app_puts_around_a_file_is_compared(folders, vocab, tmp_path, capsys):
    folder, model = folders["sequence"]
    file = convert(tmp_path / "m.tflite", logits_of(model))
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join(vocab) + "\n")
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(LABELS) + "\n")
    right = {"vocab_file": other, "labels_file": labels}
    compared = compare(file, folder, **right)
    assert (compared.faults, len(compared.checked), compared.notes) == ((), 2, ())
    assert "lower-casing" in compare(file, folder, **right, cased=True).faults[0]
    assert "lower-casing" in compare(file, folder, cased=True).faults[0]
    words = list(vocab)
    exchange(as_array := np.array(words, dtype=object), 0, words.index("good"), words.index("bad"))
    other.write_text("\n".join(as_array) + "\n")
    first, tokens = compare(file, folder, **right, texts=["a good film"]).faults
    assert "the first of 2 ids" in first
    assert tokens.startswith("tokens of 1 of 1 texts")
    other.write_text("\n".join(vocab) + "\n")
    labels.write_text("\n".join(reversed(LABELS)) + "\n")
    assert compare(file, folder, **right).faults[0].startswith("labels: ")
    roles = ",".join(f"{name}={role}" for name, role in {**ROLES, "output_0": "logits"}.items())
    command = ["inspect", str(file), "--against", str(folder), "--roles", roles]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "agrees on" in said and "median latency" in said
    assert cli.main([*command, "--labels", str(labels)]) == 1
    assert "FAULT: labels" in capsys.readouterr().out


def without_input(file, name):
    tree = editing.read(file)
    tree.signatureDefs[0].inputs = [
        item for item in tree.signatureDefs[0].inputs if name not in item.name
    ]
    (graph,) = tree.subgraphs
    graph.inputs = [i for i in graph.inputs if name not in graph.tensors[i].name]
    editing.write(tree, file)
    return file


@pytest.mark.parametrize(
    ("missing", "note"),
    [(b"args_2", "takes no token types"), (b"args_1", "takes no mask")],
    ids=["types: single texts", "mask: full inputs"],
)
def test_a_file_without_an_input_is_compared_as_far_as_it_goes(missing, note, folders, tmp_path):
    folder, model = folders["sequence"]
    run = logits_of(model)

    def without(ids, mask, types):
        if missing == b"args_2":
            return run(ids, mask, tf.zeros_like(ids))
        return run(ids, tf.ones_like(ids), types)

    file = without_input(convert(tmp_path / "m.tflite", without), missing)
    named = {name: role for name, role in ROLES.items() if name != missing.decode()}
    compared = compare(file, folder, tensor_roles=named | {"output_0": "logits"})
    assert (compared.faults, note in compared.notes[-1]) == ((), True)
    assert dataclasses.asdict(compared)["outputs"][0]["role"] == "logits"


def test_the_noise_of_rows_in_eight_bits_is_allowed(vocab, tmp_path, monkeypatch):
    """LiteRT multiplies rows in eight bits, of which one large value leaves the others few."""
    config = config_of(len(vocab)).replace(hidden_size=64, intermediate_size=128)
    model = shrink_embeddings(toys.randomise(models.build_classifier(config, 3), 5))
    for layer in model.layers:
        if layer.name.endswith("layer_norm"):
            gamma, beta = layer.get_weights()
            gamma[0] *= 40
            layer.set_weights([gamma, beta])
    before = model.get_weights()
    file = convert(tmp_path / "m.tflite", logits_of(model), quantize=True)
    ids = np.random.default_rng(0).integers(5, len(vocab), (32, LENGTH))
    features = dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))

    def answers():
        return {"logits": model({k: features[k] for k in model.input_names}).numpy()}

    def bound():
        return against_rounding.bounds_of_outputs(file, model, answers)["logits"].sqnr_db

    with_rows = bound()
    monkeypatch.setattr(against_rounding, "_rounded_rows", lambda _: contextlib.nullcontext())
    assert agreement.INT8.sqnr_db < with_rows < bound() - 3
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
