"""What is learnt in bfloat16 is in the model afterwards, which stays in float32."""

import numpy as np
import pytest
import toys

from tfdistill import models
from tfdistill.training import precision


@pytest.mark.slow
def test_what_the_copy_learns_is_in_the_model():
    model = models.build_classifier(toys.STUDENT, 2)
    before = model.get_weights()
    with precision.training_in(model, precision.MIXED) as trained:
        layer = trained.get_layer("layer_0_query")
        assert (trained is not model, layer.compute_dtype) == (True, "bfloat16")
        trained.set_weights([weight + 0.125 for weight in before])
    for weight, earlier in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, earlier + 0.125)
    assert model.get_layer("layer_0_query").compute_dtype == "float32"
