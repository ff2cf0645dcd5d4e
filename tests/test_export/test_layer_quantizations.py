import pytest

from export.conversion import prepare, quantize
from tfdistill import errors, models

DYNAMIC = quantize.quantization("dynamic_wi8_afp32")
STATIC = quantize.quantization("static_wi8_ai8")


def test_the_first_pattern_that_fits_a_layer_counts_and_what_the_file_does_anyway_does_not(toy):
    patterns = {"layer_0_query": "float16", "layer_0_*": "float32", "pooler": "dynamic_wi4_afp32"}
    resolved = prepare.resolve(toy.model, DYNAMIC, patterns)
    chosen = {layer: value.name for layer, value in resolved.items()}
    assert chosen["layer_0_query"] == "float16"
    assert chosen["layer_0_key"] == chosen["layer_0_layer_norm"] == "float32"
    assert chosen["pooler"] == "dynamic_wi4_afp32"
    assert not {layer for layer in chosen if not layer.startswith(("layer_0_", "pooler"))}
    assert prepare.resolve(toy.model, DYNAMIC, {"*": "dynamic_wi8_afp32"}) == {}


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"layer_9_*": "float32"}, "fits no layer. Did you mean 'layer_"),
        ({"layer_0_*": "float31"}, "Did you mean 'float32'"),
        ({"layer_0_*": "static_wi8_ai8"}, "a quantization of weights"),
        ({"*_layer_norm": "float32"}, "layers with weight matrices.*embeddings_layer_norm"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(layers, message, toy):
    with pytest.raises(errors.ConfigError, match=message):
        prepare.resolve(toy.model, DYNAMIC, layers)


def test_static_activations_may_stay_in_floats_around_any_layer(toy):
    assert "layer_0_layer_norm" in prepare.resolve(toy.model, STATIC, {"*_layer_norm": "float32"})


def test_blocks_must_divide_the_rows_of_every_matrix(toy):
    blocks = quantize.quantization("dynamic_wi4_afp32_block32")
    prepare.check_blocks(prepare.stored_weights(toy.model, blocks, {}))
    odd = models.build_classifier(toy.config.replace(intermediate_size=72), 3)
    with pytest.raises(errors.ConfigError) as caught:
        prepare.check_blocks(prepare.stored_weights(odd, blocks, {}))
    # (72, 32) is multiplied with rows of 72; (32, 72) with rows of 32, which a block divides.
    assert "received 72 (layer_0_output, layer_1_output)" in str(caught.value)
    assert "Take dynamic_wi4_afp32" in str(caught.value)
    by_layer = prepare.resolve(odd, blocks, {"layer_*_output": "dynamic_wi4_afp32"})
    prepare.check_blocks(prepare.stored_weights(odd, blocks, by_layer))
    # Of a table they divide the vectors, not the rows.
    odd = models.build_classifier(toy.config.replace(vocab_size=203), 3)
    prepare.check_blocks(prepare.stored_weights(odd, blocks, {}))
