"""A quantization-aware model on disk: the plain model and its ranges."""

import numpy as np
import pytest
import toys

from tfdistill import compress, errors, models

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


def test_clusters_and_zeros_survive_the_disk(clustered, tmp_path):
    aware = compress.quantize_aware(clustered.stripped)
    compress.observe(aware, [BATCH])
    compress.save_ranges(aware, tmp_path / "ranges")

    again = compress.with_ranges(compress.strip(aware), tmp_path / "ranges")

    np.testing.assert_array_equal(again(BATCH).numpy(), aware(BATCH).numpy())


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
