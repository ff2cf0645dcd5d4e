"""Addresses of other storage: the same bytes as here, whole or absent, on S3's own protocol."""

import json
import sys

import boto3
import numpy as np
import pytest
import s3fs
import toys
from moto import server

from tfdistill import cli, errors, tasks
from tfdistill.data import (
    corpus,
    parallel,
    preparation,
    shard_files,
    shards,
    soft_labels,
    synthetic,
)
from tfdistill.io import arrays, files, ledger, locks, safe_paths, storage
from tfdistill.tokenization.reading import read_tokenizer

DIRECT = ("--runner", "DirectRunner")
OPTIONS = {"max_length": 24, "shard_bytes": 500, "seed": 3}


@pytest.fixture(scope="module")
def endpoint():
    """A server of S3 on loopback, and the environment that leads there."""
    started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    with pytest.MonkeyPatch.context() as patch:
        host, port = started.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def bucket(endpoint, tmp_path, monkeypatch):
    """An empty bucket, as boto3 sees it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = boto3.resource("s3").Bucket("texts")
    texts.create()
    yield texts
    texts.objects.all().delete()


def stored(bucket, prefix):
    """Name -> bytes of what lies under a prefix."""
    objects = bucket.objects.filter(Prefix=f"{prefix}/")
    return {one.key.removeprefix(f"{prefix}/"): one.get()["Body"].read() for one in objects}


def contents(folder):
    local = (locks.LOCK, ledger.MARKER)  # of a folder on this machine only
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in local}


@pytest.fixture(scope="module")
def tokenizer(toy_vocab_file):
    return read_tokenizer(toy_vocab_file)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return toys.write_documents(tmp_path_factory.mktemp("text") / "a.txt")


@pytest.fixture
def prepared(text, tokenizer, tmp_path):
    preparation.prepare_corpus(text, tokenizer, tmp_path / "here", **OPTIONS)
    return tmp_path / "here"


@pytest.fixture
def uploads(monkeypatch):
    """The names of what is uploaded."""
    names, upload = [], storage.upload

    def counted(source, target):
        names.append(target.name)
        upload(source, target)

    monkeypatch.setattr(storage, "upload", counted)
    return names


@pytest.mark.slow
def test_shards_are_prepared_from_addresses_at_an_address(
    text, toy_vocab_file, bucket, tmp_path, capsys
):
    bucket.upload_file(str(text), "raw/a.txt")
    bucket.upload_file(str(toy_vocab_file), "raw/vocab.txt")
    options = ["--max-length", "24", "--shard-mb", "0.0005", "--json"]
    for paths, out in (
        ((str(text), str(toy_vocab_file)), str(tmp_path / "here")),
        (("s3://texts/raw/a.txt", "s3://texts/raw/vocab.txt"), "s3://texts/shards"),
    ):
        command = ["data", "prepare", paths[0], "--vocab", paths[1], "--out", out, *options]
        assert cli.main(command) == 0
        assert json.loads(capsys.readouterr().out)["num_shards"] > 3
    assert stored(bucket, "shards") == contents(tmp_path / "here")
    assert cli.main(command) == 2 and "--resume or --overwrite" in capsys.readouterr().err
    assert corpus.encode_corpus("s3://texts/raw/a.txt", read_tokenizer(toy_vocab_file))


@pytest.mark.slow
def test_a_preparation_that_was_stopped_continues_at_the_address(
    text, tokenizer, bucket, prepared, monkeypatch, uploads
):
    upload, left = storage.upload, [4]

    def failing(source, target):
        left[0] -= target.name.endswith(".tfrecord")
        if left[0] == 0:
            raise KeyboardInterrupt
        upload(source, target)

    monkeypatch.setattr(storage, "upload", failing)
    with pytest.raises(KeyboardInterrupt):
        preparation.prepare_corpus(text, tokenizer, "s3://texts/shards", **OPTIONS)
    assert not shard_files.read_manifest("s3://texts/shards").shards  # it could say nothing more
    with pytest.raises(errors.DataError, match="finished shards"):
        shards.ShardedBatches("s3://texts/shards")
    bucket.put_object(Key="shards/part-00001.tfrecord", Body=b"damaged")
    monkeypatch.setattr(storage, "upload", upload)
    uploads.clear()
    preparation.prepare_corpus(text, tokenizer, "s3://texts/shards", resume=True, **OPTIONS)
    assert stored(bucket, "shards") == contents(prepared)
    written = {name for name in uploads if name.endswith(".tfrecord")}
    assert {"part-00000.tfrecord", "part-00002.tfrecord"}.isdisjoint(written)
    assert {"part-00001.tfrecord", "part-00003.tfrecord"} <= written


def test_beam_writes_to_an_address_and_reports_a_unit_that_failed(
    text, tokenizer, bucket, prepared, monkeypatch
):
    write = shard_files.write_shard

    def broken(encoded, path):
        if str(path).endswith("part-00002.tfrecord"):
            raise errors.DataError("the second is cursed")
        return write(encoded, path)

    monkeypatch.setattr(shard_files, "write_shard", broken)
    options = {**OPTIONS, "pipeline": DIRECT}
    with pytest.raises(errors.DataError, match=r"bytes .*: the second is cursed"):
        preparation.prepare_corpus(text, tokenizer, "s3://texts/shards", **options)
    monkeypatch.setattr(shard_files, "write_shard", write)
    preparation.prepare_corpus(text, tokenizer, "s3://texts/shards", resume=True, **options)
    there = stored(bucket, "shards")
    faults = [name for name in there if name.endswith(".fault")]
    assert {name: there[name] for name in there if name not in faults} == contents(prepared)


@pytest.mark.slow
def test_batches_of_an_address_are_those_of_the_files(bucket, prepared, monkeypatch):
    for name, content in contents(prepared).items():
        bucket.put_object(Key=f"shards/{name}", Body=content)
    downloads, download = [], storage.download
    monkeypatch.setattr(
        storage, "download", lambda *both: downloads.append(both[0].name) or download(*both)
    )
    here = shards.ShardedBatches(prepared, 4)
    there = shards.ShardedBatches("s3://texts/shards", 4)
    for local, remote in zip(here.batches(), there.batches(), strict=True):
        for name in local:
            np.testing.assert_array_equal(local[name], remote[name])
    assert len(downloads) == len(here.corpus.shards)
    shards.check_shards("s3://texts/shards")
    counts = shards.token_counts("s3://texts/shards")
    np.testing.assert_array_equal(counts, shards.token_counts(prepared))
    assert len(downloads) == len(here.corpus.shards)  # each is here now
    copy = next((prepared.parent / "cache" / "tfdistill" / "shards").iterdir())
    copy.write_bytes(b"damaged")
    np.testing.assert_array_equal(shards.token_counts("s3://texts/shards"), counts)
    assert len(downloads) == len(here.corpus.shards) + 1


def test_a_damaged_shard_of_an_address_is_refused(bucket, prepared):
    there = contents(prepared)
    there["part-00001.tfrecord"] = bytes(len(there["part-00001.tfrecord"]))
    there.pop("part-00002.tfrecord")
    for name, content in there.items():
        bucket.put_object(Key=f"shards/{name}", Body=content)
    with pytest.raises(errors.DataError, match=r"s3://.*part-00002.tfrecord: .*no file"):
        shards.ShardedBatches("s3://texts/shards")
    manifest = shard_files.read_manifest("s3://texts/shards")
    read = {"next_sentence": False, "pad_id": 0}
    with pytest.raises(errors.DataError, match=r"s3://.*part-00001.tfrecord: .*another checksum"):
        shard_files.read_shard(manifest.shards[1], "s3://texts/shards", **read)
    with pytest.raises(errors.DataError, match=r"s3://.*part-00002.tfrecord: .*no file"):
        shard_files.read_shard(manifest.shards[2], "s3://texts/shards", **read)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_answers_are_written_to_and_read_from_an_address(suffix, bucket, tmp_path):
    values = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
    spec = tasks.TaskSpec("moods", "text", "mood", labels=("no", "yes"))
    examples = tasks.Examples(spec, ["a", "b", "ü"], None, None)
    address, local = f"s3://texts/teacher.{suffix}", tmp_path / f"teacher.{suffix}"
    for path in (address, local):
        soft_labels.write(path, examples, values)
    assert bucket.Object(f"teacher.{suffix}").get()["Body"].read() == local.read_bytes()
    np.testing.assert_array_equal(soft_labels.read(address, spec).values, values)
    other = tasks.TaskSpec("likeness", "text", "score", kind="regression")
    with pytest.raises(errors.DataError):
        soft_labels.read(address, other)
    with pytest.raises(errors.DataError, match=f"s3://texts/absent.{suffix}"):
        soft_labels.read(f"s3://texts/absent.{suffix}", spec)


@pytest.mark.slow
def test_a_student_is_distilled_from_answers_at_an_address(bucket, tmp_path, capsys):
    task, data, out = synthetic.TASK, tmp_path / "data", tmp_path / "run"
    synthetic.write_task(data, num_train=32, num_dev=16, num_test=4, num_documents=4)
    examples = [tasks.load_examples(task, data, split) for split in ("train", "dev")]
    texts = [text for part in examples for text in part.texts]
    labels = np.concatenate([part.labels for part in examples])
    logits = (
        3 * np.eye(len(task.labels), dtype=np.float32)[labels]
    )  # a teacher that is always right
    address = "s3://texts/answers.parquet"
    soft_labels.write(address, tasks.Examples(task, texts, None, None), logits)
    command = ["distill", "--answers", address, "--student", "static:width=8", "--task"]
    command += ["assistant", "--data-dir", str(data), "--vocab", "train:200", "--epochs", "1"]
    command += ["--stages", "logits", "--allow-weak", "--set", "baselines=none", "--json"]
    code = cli.main([*command, "--out", str(out)])
    said = capsys.readouterr()
    assert code == 0, said.err
    assert f"{address} to 32 of 32 training texts, 16 of 16 development texts" in said.err
    assert json.loads(said.out)["teacher_metrics"] == {"accuracy": 1.0}
    assert address in (out / "recipe.yaml").read_text()
    assert (out / "report.html").is_file()


def test_an_upload_that_fails_leaves_what_was_there_and_arrays_carry_their_checksum(bucket):
    target = storage.located("s3://texts/a.json")
    files.atomic_write_text(target, "1\n")
    with pytest.raises(ZeroDivisionError), files.atomic_write(target) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert stored(bucket, "") == {} and bucket.Object("a.json").get()["Body"].read() == b"1\n"
    assert [one.key for one in bucket.objects.all()] == ["a.json"]
    gone = storage.located("s3://no-such-bucket/a.json")
    with pytest.raises(errors.EnvironmentFault, match=r"no-such-bucket.*storage that answers"):
        files.atomic_write_text(gone, "1\n")
    path = storage.located("s3://texts/a.safetensors")
    arrays.write_arrays(path, {"x": np.arange(3)}, made_from="m")
    np.testing.assert_array_equal(arrays.read_arrays(path, made_from="m")["x"], np.arange(3))
    bucket.put_object(Key="a.safetensors", Body=b"damaged")
    with pytest.raises(errors.WeightsError):
        arrays.read_arrays("s3://texts/a.safetensors")


def test_what_can_be_seen_half_written_is_renamed(tmp_path, monkeypatch):
    """As on the file system of a cluster, whose files grow."""
    monkeypatch.setattr(storage, "_OBJECT_STORES", ())
    target = storage.located("memory://renamed/out/a.txt")
    seen, put = [], target.fs.put_file
    monkeypatch.setattr(target.fs, "put_file", lambda *both: seen.append(both[1]) or put(*both))
    for content in ("one", "two"):
        (tmp_path / "source").write_text(content)
        storage.upload(tmp_path / "source", target)
        assert [str(path) for path in target.parent.iterdir()] == [str(target)]
        assert target.read_text() == content
    monkeypatch.setattr(target.fs, "mv", None)
    with pytest.raises(errors.EnvironmentFault, match="storage that answers"):
        storage.upload(tmp_path / "source", target)
    assert [str(path) for path in target.parent.iterdir()] == [str(target)]
    assert len(seen) == 3 and all("/.a.tfdistill-" in name for name in seen)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["data", "prepare", "ftp://host/a", "--vocab", "v", "--out", "x"], "begins with s3://"),
        (["data", "prepare", "a", "--vocab", "v", "--out", "gs://b/x"], "gcsfs"),
        (["pretrain", "bert_tiny", "--corpus", "file:///a", "--out", "x"], "begins with s3://"),
    ],
)
def test_an_address_that_cannot_be_opened_is_one_line(
    command, said, endpoint, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert cli.main(command) in (1, 2)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(errors.EnvironmentFault, match=r"pip install 'tfdistill\[remote\]'"):
        storage.located("s3://bucket/x")


def test_storage_that_does_not_answer_is_one_error(monkeypatch):
    s3fs.S3FileSystem.clear_instance_cache()  # of the server that answers
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(errors.EnvironmentFault, match=r"s3://other/x: expected storage that"):
        storage.check("s3://other/x")
    s3fs.S3FileSystem.clear_instance_cache()


def test_the_rest_of_the_program_takes_opened_addresses_only_on_purpose():
    opened = storage.located("memory://store/x")
    assert storage.located(opened) is opened and storage.is_remote(opened)
    assert storage.absolute(opened) == "memory://store/x"
    assert safe_paths.inside(opened, "a.txt") == opened / "a.txt"
    for name in ("../a", "a/b", "/a", "s3://b/a"):
        with pytest.raises(errors.ManifestError):
            safe_paths.inside(opened, name)
    with pytest.raises(errors.ConfigError):
        files.atomic_write_text("memory://store/x", "")
    assert not opened.exists()


def test_files_that_change_below_other_machines_are_seen(bucket):
    folder = storage.located("s3://texts/shards")
    assert storage.sizes(folder) == {} and not (folder / "a").is_file()
    bucket.put_object(Key="shards/a", Body=b"123")
    bucket.put_object(Key="shards/below/b", Body=b"1")
    assert storage.sizes(folder) == {"a": 3} and (folder / "a").is_file()
    units = [parallel.WorkUnit("a", "s3://texts/shards/a", None)]
    parallel.run_pipeline(None, units, DIRECT)  # what is there is not done again
    storage.remove_folder(folder)
    storage.remove_folder(folder)
    assert storage.sizes(folder) == {}
