"""Models that the tests share: building them costs more than a step of them."""

import numpy as np
import pytest
import tf_keras as keras
import toys

from tfdistill import distillers, models


@pytest.fixture(scope="session")
def built():
    """Builds each toy once: (config, labels) -> model; what an earlier test froze can learn."""
    models_of_shapes = {}

    def build(config, num_labels=toys.NUM_LABELS):
        key = (config, num_labels)
        if key not in models_of_shapes:
            models_of_shapes[key] = models.build_classifier(config, num_labels)
        models_of_shapes[key].trainable = True
        return models_of_shapes[key]

    return build


@pytest.fixture
def teacher(built, request):
    """A teacher of the shape that the module names TEACHER, or a shallow one."""
    return toys.randomise(built(getattr(request.module, "TEACHER", toys.SHALLOW_TEACHER)), seed=1)


@pytest.fixture
def student(built, request):
    return toys.randomise(built(getattr(request.module, "STUDENT", toys.SHALLOW_STUDENT)), seed=2)


@pytest.fixture
def tinybert(teacher, student):
    """Makes a compiled TinyBertDistiller of the toys, its projections filled with noise."""

    def make(stage="intermediate", *, teacher=teacher, student=student, optimizer=None, **options):
        loss_weights = options.pop("loss_weights", None)
        distiller = distillers.TinyBertDistiller(teacher, student, stage=stage, **options)
        random = np.random.default_rng(3)
        for projection in distiller.projections:
            shapes = [array.shape for array in projection.get_weights()]
            projection.set_weights([random.normal(0, 0.3, shape) for shape in shapes])
        distiller.compile(
            optimizer or keras.optimizers.SGD(0.1), loss_weights=loss_weights, run_eagerly=True
        )
        return distiller

    return make


@pytest.fixture
def logs():
    """Runs one step from fresh running means; returns what it logs, as numbers."""

    def run(step, *data):
        step.__self__.reset_metrics()
        return {name: float(value) for name, value in step(data).items()}

    return run
