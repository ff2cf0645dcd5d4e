"""What tests of runs share."""

import pytest

from tfdistill import run
from tfdistill.commands import base
from tfdistill.run import stages


class Stop(Exception):
    """Ends a run before its first fit."""


@pytest.fixture(autouse=True)
def messages_on_stderr():
    """Prints messages as the command line does."""
    with base.messages():
        yield


@pytest.fixture
def until_fit(monkeypatch):
    """Distils as far as the first fit: the distiller, and the batches that it is given."""
    seen = []
    real = stages.stage_batches

    def look(stage, lesson, seed, distiller):
        seen.append((distiller, real(stage, lesson, seed, distiller)))
        raise Stop

    monkeypatch.setattr(stages, "stage_batches", look)

    def begin(recipe, out, **options):
        with pytest.raises(Stop):
            run.distill_variant(recipe, out, **options)
        return seen.pop()

    return begin
