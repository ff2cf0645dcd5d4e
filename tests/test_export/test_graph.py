"""The function that an exported file holds answers like the model it was taken from."""

import numpy as np
import pytest
import tensorflow as tf

import export
from export.conversion import convert
from export.conversion.convert import Conversion
from export.model import graph
from export.model.heads import HEADS
from tfdistill import errors, models

FAMILIES = {
    "bert": {},
    "tinybert": {"family": "tinybert", "hidden_act": "gelu_tanh"},
    "distilbert": {"family": "distilbert", "pooler": False, "type_vocab_size": 0},
    "one_layer": {"num_layers": 1, "hidden_act": "relu", "layer_norm_eps": 1e-3},
    "three_layers": {"num_layers": 3, "num_heads": 1},
}


def features(model, lengths, width, vocab_size, seed=0):
    random = np.random.default_rng(seed)
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    model_inputs = {
        "input_ids": random.integers(5, vocab_size, mask.shape).astype(np.int32),
        "attention_mask": mask,
        "token_type_ids": random.integers(0, 2, mask.shape).astype(np.int32),
    }
    return {name: model_inputs[name] for name in model.input_names}


def answers(model, model_inputs, **options):
    """Asks for each example by itself, and puts the answers together."""
    run = graph.forward(model, **options)
    rows = [
        run({name: tf.constant(value[i : i + 1]) for name, value in model_inputs.items()})
        for i in range(len(model_inputs["input_ids"]))
    ]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.slow
@pytest.mark.parametrize("changes", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("num_labels", [1, 3])
def test_computing_the_last_layer_for_cls_alone_changes_nothing(changes, num_labels, toy, lively):
    config = toy.config.replace(family="bert").replace(**changes)
    model = lively(models.build_classifier(config, num_labels))
    model_inputs = features(model, [12, 7, 2], 12, config.vocab_size)
    expected = model(model_inputs, training=False).numpy()
    assert np.abs(expected).mean() > 0.1
    received = answers(model, model_inputs)
    assert list(received) == ["logits"]
    # Two orders of the same float32 sums of up to 64 terms.
    np.testing.assert_allclose(received["logits"], expected, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def operations(toy):
    """Those of the traced graph, by type."""
    specs = {name: tf.TensorSpec((1, 16), tf.int32) for name in toy.model.input_names}
    traced = tf.function(graph.forward(toy.model)).get_concrete_function(specs).graph
    return lambda kind: [op for op in traced.get_operations() if op.type == kind]


def test_the_last_layer_sees_every_token_but_answers_for_one(operations):
    """Keys and values of all tokens, the queries and the feed-forward of [CLS] only."""
    rows = [op.inputs[0].shape[0] for op in operations("MatMul")]
    # Layer 0: query, key, value, output and two feed-forward. Layer 1: key and value see all 16
    # tokens; query, output, two feed-forward, pooler and classifier see one.
    assert sorted(rows, reverse=True) == [16] * 6 + [16] * 2 + [1] * 4 + [1] * 2


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("BatchMatMulV2", "attention_scores"),
        ("BatchMatMulV2", "context"),
        ("Softmax", "attention_probs"),
    ],
)
def test_the_attention_of_the_last_layer_carries_the_names_of_its_layers(kind, part, operations):
    """By these names a mixed quantization and the report on errors find the operators."""
    names = [operation.name for operation in operations(kind)]
    for layer in ("layer_0", "layer_1"):
        assert sum(f"{layer}_{part}/" in name for name in names) == 1


BUILD = {
    "token": lambda config: models.build_token_classifier(config, 5),
    "span": models.build_span_classifier,
}


@pytest.mark.parametrize(
    ("head", "family"), [("token", "distilbert"), ("token", "one_layer"), ("span", "tinybert")]
)
def test_every_token_is_answered_as_by_the_model(head, family, toy, lively):
    config = toy.config.replace(family="bert").replace(**FAMILIES[family])
    model = lively(BUILD[head](config))
    model_inputs = features(model, [12, 7, 2], 12, config.vocab_size)
    expected = model(model_inputs, training=False).numpy()
    assert np.abs(expected).mean() > 0.1
    received = answers(model, model_inputs)
    if head == "token":
        outputs = {"logits": expected}
    else:
        assert np.abs(expected[..., 0] - expected[..., 1]).mean() > 0.1
        outputs = {"start_logits": expected[..., 0], "end_logits": expected[..., 1]}
    assert list(received) == list(outputs)
    for name, values in outputs.items():
        np.testing.assert_allclose(received[name], values, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (models.build_encoder, {}, r"received an encoder without a head.*Fine-tune"),
        (models.build_masked_lm, {}, r"received a masked language model.*Fine-tune"),
        (models.build_span_classifier, {"softmax": True}, r"softmax.*answers with a span.*decoded"),
    ],
)
def test_heads_that_a_file_cannot_answer_with_are_refused(build, options, message, toy):
    with pytest.raises(errors.ConfigError, match=message):
        graph.forward(build(toy.config), **options)


@pytest.fixture(scope="module")
def reports(toy, lively, tmp_path_factory):
    """Each head converted by its inference function and as the model is, looked at by LiteRT."""
    heads = {
        "sequence": toy.model,
        "token": lively(models.build_token_classifier(toy.config, 5)),
        "span": lively(models.build_span_classifier(toy.config)),
    }
    folder = tmp_path_factory.mktemp("heads")

    def look(name, run, model, quantize):
        path = folder / f"{name}_{quantize}.tflite"
        module = tf.Module()
        module.variables_of_model = model.weights
        specs = {name: tf.TensorSpec((1, 16), tf.int32, name=name) for name in model.input_names}
        traced = tf.function(run, input_signature=[specs], autograph=False)
        signatures = {"len16": traced.get_concrete_function()}
        tf.saved_model.save(module, str(folder / name), signatures=signatures)
        convert.run(Conversion(str(folder / name), str(path), quantize, ["len16"]))
        return export.inspect(path, open_it=True).signatures["len16"]

    def get(head, quantize, *, plain=False):
        model = heads[head]
        run = (
            (lambda model_inputs: {"logits": model(model_inputs)})
            if plain
            else graph.forward(model)
        )
        return look(f"{head}{plain}", run, model, quantize)

    return get


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "quantize"),
    [
        ("span", "dynamic_wi8_afp32"),
        ("token", "float32"),
        pytest.param("span", "float32", marks=pytest.mark.thorough),
        pytest.param("token", "dynamic_wi8_afp32", marks=pytest.mark.thorough),
    ],
)
def test_the_other_heads_are_at_most_two_chains_too(head, quantize, reports):
    report = reports(head, quantize)
    assert 1 <= report.partitions <= 2
    assert set(report.left_operators) <= {"CAST", "GATHER"}
    assert {tensor.name for tensor in report.outputs} == set(HEADS[head].output_names())


@pytest.mark.slow
def test_the_graph_has_no_more_operators_than_a_plain_conversion(reports):
    """And the look-up of positions, which never change, is none of them."""
    ours, plain = (reports("sequence", "float32", plain=plain) for plain in (False, True))
    assert ours.num_operators < plain.num_operators
    assert ours.operators["GATHER"] == 2  # words and token types
    # Two layers and the embeddings: two normalizations each, of two means, and one.
    assert ours.operators["MEAN"] == 2 * 5
    assert ours.operators["BATCH_MATMUL"] == 2 * 2


def test_the_names_in_a_file_do_not_depend_on_what_ran_before(toy):
    """A run that was killed and resumed writes the same bytes."""
    spec = {name: tf.TensorSpec((1, 8), tf.int32, name=name) for name in toy.model.input_names}

    def names():
        traced = tf.function(graph.forward(toy.model)).get_concrete_function(spec)
        operations = traced.graph.get_operations()
        # A placeholder is a captured variable: numbered, and gone once the file holds its value.
        return [operation.name for operation in operations if operation.type != "Placeholder"]

    first = names()
    assert names() == first
