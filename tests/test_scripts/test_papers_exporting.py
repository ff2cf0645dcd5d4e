import shutil

import pytest
import tf_keras as keras
from papers import exporting

from tfdistill import errors, models


def test_a_full_disk_is_told_before_the_export(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(exporting.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(errors.ExportError, match="GB free"):
        exporting.export_missing(tmp_path / "files", "bert_tiny", ("float32",), lengths=(8,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("bert_base", 109_482_240),
        ("tinybert_4l_312d", 14_350_248),
        *(
            pytest.param(*thorough, marks=pytest.mark.thorough)
            for thorough in (
                ("mobilebert", 24_581_888),
                ("distilbert_6l_768d", 66_362_880),
                ("tinybert_6l_768d", 66_955_008),
                ("mobilebert_without_opt", 24_581_888),
                ("mobilebert_tiny", 15_485_696),
            )
        ),
    ],
)
def test_the_papers_models_have_exactly_so_many_parameters(preset, parameters, monkeypatch):
    monkeypatch.setattr("tfdistill.models.layer_factory.initializer", keras.initializers.Zeros)
    built = models.build_encoder(exporting.shape(preset))
    assert built.count_params() == parameters
    assert models.count_parameters(models.preset(preset)) == parameters
    keras.backend.clear_session()
