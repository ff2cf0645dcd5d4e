"""A quantization-aware model on disk: the plain model and its ranges."""

import numpy as np
import pytest
import toys

from tfdistill import compress, errors, models, weights
from tfdistill.weights import factorised

pytestmark = pytest.mark.slow

BATCH = toys.features((9, 6, 4), seed=5)


@pytest.fixture(scope="module")
def saved(quantized, tmp_path_factory):
    path = tmp_path_factory.mktemp("ranges") / compress.RANGES
    compress.save_ranges(quantized.trained, path)
    return path


def test_it_answers_bit_for_bit_as_the_saved_one(quantized, saved):
    again = compress.with_ranges(quantized.stripped, saved)

    np.testing.assert_array_equal(again(BATCH).numpy(), quantized.trained(BATCH).numpy())
    assert not np.array_equal(again(BATCH).numpy(), quantized.stripped(BATCH).numpy())


def test_a_factorised_word_table_keeps_its_factors(tmp_path):
    aware = compress.quantize_aware(toys.classifier(toys.STUDENT.replace(embedding_size=4)))
    compress.observe(aware, [BATCH])
    compress.save_ranges(aware, tmp_path / "ranges")
    plain = compress.strip(aware)
    (words,), (projection,) = (
        plain.get_layer(name).get_weights() for name in ("word_embeddings", "embedding_projection")
    )
    factors = factorised.split(words @ projection, 4)  # as a checkpoint is read
    plain.get_layer("word_embeddings").set_weights(factors[:1])
    plain.get_layer("embedding_projection").set_weights(factors[1:])

    again = compress.with_ranges(plain, tmp_path / "ranges")

    np.testing.assert_array_equal(again(BATCH).numpy(), aware(BATCH).numpy())
    np.testing.assert_array_equal(plain.get_layer("word_embeddings").get_weights()[0], factors[0])
    unfactorised = compress.quantize_aware(toys.classifier(toys.STUDENT))
    compress.observe(unfactorised, [BATCH])
    compress.save_ranges(unfactorised, tmp_path / "of another")
    with pytest.raises(errors.WeightsError, match="ranges of"):
        compress.with_ranges(plain, tmp_path / "of another")
    narrower = toys.classifier(toys.STUDENT.replace(embedding_size=3))
    with pytest.raises(errors.WeightsError, match="ranges of"):
        compress.with_ranges(narrower, tmp_path / "ranges")


def test_factors_that_were_trained_in_4_bits_are_on_their_grid_again(tmp_path):
    shape = toys.STUDENT.replace(
        vocab_size=64, hidden_size=64, intermediate_size=64, embedding_size=32
    )
    trained = compress.quantize_aware(toys.randomise(toys.classifier(shape), 3), bits=4)
    plain = compress.strip(trained)
    compress.save_ranges(plain, tmp_path / "factors")
    weights.save_hf(plain, tmp_path / "hf")
    loaded = weights.load_classifier(tmp_path / "hf").model

    def lost(model):
        rounded = compress.strip(compress.quantize_aware(model, bits=4))
        return np.abs(rounded(BATCH).numpy() - model(BATCH).numpy()).max()

    again = compress.with_ranges(loaded, tmp_path / "factors")
    assert not compress.is_quantize_aware(again)
    np.testing.assert_allclose(again(BATCH), trained(BATCH), rtol=0, atol=1e-5)
    assert lost(again) < 1e-5 < 100 * 1e-5 < lost(loaded)  # other factors are rounded again
    compress.save_ranges(toys.classifier(toys.STUDENT), tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_ranges_of_another_model_and_damaged_files_are_refused(quantized, saved, tmp_path):
    other = models.build_classifier(
        toys.STUDENT.replace(family="distilbert", pooler=False, type_vocab_size=0), 3
    )
    with pytest.raises(errors.WeightsError, match="token_type_embeddings"):
        compress.with_ranges(other, saved)
    broken = tmp_path / compress.RANGES
    broken.write_bytes(saved.read_bytes()[:100])
    with pytest.raises(errors.WeightsError, match="a whole safetensors file"):
        compress.with_ranges(quantized.stripped, broken)
    with pytest.raises(errors.WeightsError):
        compress.with_ranges(quantized.stripped, tmp_path / "none")
