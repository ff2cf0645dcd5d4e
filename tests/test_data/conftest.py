"""What tests of data share."""

import pytest

from tfdistill.tokenization.reading import read_tokenizer


@pytest.fixture(scope="session")
def tokenizer(toy_vocab_file):
    return read_tokenizer(toy_vocab_file)
