import pytest

from export.model import signature
from tfdistill import errors


def test_lengths_come_out_ascending():
    assert signature.check_lengths((64, 16, 32), 64) == (16, 32, 64)
    assert [signature.signature_name(length) for length in (32, 128)] == ["len32", "len128"]


@pytest.mark.parametrize(
    "lengths", [(), (8, 8), (1,), (0, 8), (-8,), (8, 65), (8.0,), (True, 8), ("8",)]
)
def test_unusable_lengths_are_refused(lengths):
    with pytest.raises(errors.ConfigError, match="lengths"):
        signature.check_lengths(lengths, 64)
