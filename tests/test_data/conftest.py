"""What tests of data share."""

import pathlib

import pytest
import toys

from tfdistill.data import shard_files, shards
from tfdistill.tokenization.reading import read_tokenizer


@pytest.fixture(scope="session")
def tokenizer(toy_vocab_file):
    return read_tokenizer(toy_vocab_file)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return toys.write_documents(tmp_path_factory.mktemp("text") / "a.txt")


@pytest.fixture
def prepare(text, tokenizer, tmp_path):
    def run(folder="out", path=text, tokenizer=tokenizer, **options):
        options = {"max_length": 24, "shard_bytes": 400, "seed": 3, **options}
        return shards.prepare_corpus(path, tokenizer, tmp_path / folder, **options)

    return run


@pytest.fixture
def written(monkeypatch):
    """The names of the shards that are written."""
    names, write = [], shard_files.write_shard

    def counted(encoded, path):
        names.append(pathlib.Path(path).name)
        return write(encoded, path)

    monkeypatch.setattr(shard_files, "write_shard", counted)
    return names
