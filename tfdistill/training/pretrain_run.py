"""Pre-training of a masked language model: on a prepared corpus, resumable at any step, and whole.

The whole goes from text or shards and a model's name to a Hugging Face folder.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import tf_keras as keras

from tfdistill import distillers, errors, models, results, weights
from tfdistill.config import PretrainConfig
from tfdistill.data import masking, shard_files, shards, streaming
from tfdistill.data.streaming import StepRange
from tfdistill.io import files, ledger, storage, work_folder
from tfdistill.results import FitResult
from tfdistill.tokenization.reading import read_tokenizer, vocab_file_of
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.training import evaluation, multi_worker, optimizers, precision, strategies
from tfdistill.training.fit import fit

_EVALUATION_SEED = 0  # the masks that a model is measured with are always the same


def pretrain(
    student: keras.Model,
    corpus: files.Path,
    tokenizer: Tokenizer,
    config: PretrainConfig,
    *,
    folder: files.Path,
    seed: int = 1,
) -> tuple[FitResult, dict[str, float]]:
    """Trains a masked language model on a prepared corpus and measures it on its held-out part.

    Killed at any moment and called again with the same arguments, it continues from the last
    checkpoint with the same batches and the same masks.

    Args:
      student: A model of `models.build_masked_lm`; trained in place.
      corpus: A folder of `data.shards.prepare_corpus`.
      tokenizer: The tokenizer of the model.
      config: How to train.
      folder: Gets checkpoints/, history.csv and tensorboard/.
      seed: Seed of order, masks and dropout.

    Returns:
      What the fit did, and `evaluation.MaskedLmEvaluation`'s figures at its end.

    Raises:
      DataError: If the corpus is unfinished, damaged or has nothing held out.
      VocabularyError: If it was prepared with another vocabulary.
      ConfigError: If model, corpus and configuration do not go together.
      NonFiniteLossError: If training diverges.
    """
    shards.check_shards(corpus)
    train = shards.ShardedBatches(
        corpus, config.batch_size, seed, tokenizer=tokenizer, held_out=config.held_out
    )
    held_out = shards.ShardedBatches(
        corpus,
        config.batch_size,
        shuffle=False,
        held_out=config.held_out,
        part="held_out",
        limit=config.held_out_examples,
    )
    _check_fit(student, train, config)
    counts = None if config.smoothing is None else shards.token_counts(corpus)
    masker = masking.Masker(
        tokenizer,
        rate=config.mask_rate,
        token_counts=counts,
        smoothing=config.smoothing or 0.0,
        whole_words=config.whole_words,
    )
    total = config.steps or config.epochs * train.steps_per_epoch
    step_range = StepRange(
        streaming.MappedBatches(train, masker, seed),
        start=0,
        steps=total,
        most_parts=config.evaluations,
    )
    # Measured with equal probabilities, whatever is trained with: figures can be compared.
    measured = streaming.MappedBatches(
        held_out, masking.Masker(tokenizer, rate=config.mask_rate), _EVALUATION_SEED
    )
    with precision.training_in(student, config.precision) as trained:
        measure = evaluation.MaskedLmEvaluation(trained, measured)
        trainer = distillers.MaskedLmTrainer(trained, seed=seed)
        trainer.compile(
            optimizers.build(config, total // config.gradient_accumulation),
            loss_weights={"nsp": float(config.next_sentence)},
            gradient_accumulation=config.gradient_accumulation,
        )
        result = fit(
            trainer,
            step_range,
            epochs=step_range.parts,
            folder=folder,
            evaluate=measure,
            description="pretrain",
        )
        return result, measure()


def _check_fit(student: keras.Model, train: shards.ShardedBatches, config: PretrainConfig) -> None:
    longest = train.corpus.settings["max_length"]
    positions = models.config_of(student).max_positions
    if longest > positions:
        raise errors.ConfigError(
            "corpus",
            f"examples of at most {positions} tokens, the positions of the model",
            longest,
            "Prepare it with a smaller --max-length.",
        )
    if config.next_sentence and not train.next_sentence:
        raise errors.ConfigError(
            "corpus",
            "pairs with labels, for next-sentence prediction",
            "text without",
            "Prepare it with --next-sentence.",
        )


SETTINGS, METRICS = "pretraining.json", "metrics.json"
HF_FOLDER, KERAS_FILE = "model/hf", "model/model.keras"
KIND = "pre-training"


@dataclasses.dataclass(frozen=True)
class PretrainSource:
    """The origin of the model of a pre-training."""

    name: str  # a preset's name, or a Hugging Face folder or hub id
    vocab_file: str | None = None  # None: that of the folder or the prepared corpus
    # Whether text is lower-cased; None takes the folder's or the corpus' word for it, and True
    # where neither says anything.
    lower_case: bool | None = None
    new_head: bool = False  # whether the folder has no masked-LM head and gets a new one
    # Fields of the preset's configuration to replace, such as num_layers.
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)


def run_pretraining(
    source: PretrainSource,
    corpus: Sequence[files.Path],
    out: files.Path,
    config: PretrainConfig,
    *,
    max_length: int = 128,
    workers: int = 1,
    on_invalid: Literal["error", "replace"] = "error",
    seed: int = 1,
    devices: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Does all of a pre-training: corpus, model, training, evaluation, saving."""
    strategy = strategies.choose(devices)
    strategies.check_batch_sizes({"batch_size": config.batch_size}, strategy)
    prepared = _prepared(corpus)
    identity = {
        "format_version": 1,
        "source": dataclasses.asdict(source),
        "corpus": [pathlib.Path(path).name for path in corpus],
        "max_length": max_length,
        "on_invalid": on_invalid,
        "config": {**config.model_dump(), "seed": seed},
    }
    if prepared is not None:  # their manifest has their SHA-256; text is compared when prepared
        identity["shards"] = ledger.digest_of(prepared, (".json", ".txt"))
    with (
        multi_worker.working_folder(out, strategy) as root,
        work_folder.WorkFolder(root, KIND).open(resume=resume, overwrite=overwrite),
    ):
        ledger.check_same_file(
            root / SETTINGS,
            identity,
            f"the options that are saved in {root / SETTINGS}",
            "Resume with the same options, or start again with --overwrite.",
        )
        finished = results.read_finished(root / METRICS, results.PretrainingResult)
        if finished is not None:
            return finished.model_dump(mode="json")
        keras.utils.set_random_seed(seed)
        with strategies.scope(strategy):
            model, tokenizer = _open_model(source, prepared, config, root)
        files.atomic_write_json(root / SETTINGS, identity)
        if prepared is None:
            prepared = root / "corpus"
            shards.prepare_corpus(
                corpus,
                tokenizer,
                prepared,
                max_length=max_length,
                workers=workers,
                next_sentence=config.next_sentence,
                on_invalid=on_invalid,
                seed=seed,
                resume=True,
            )
        with strategies.scope(strategy):
            result, figures = pretrain(model, prepared, tokenizer, config, folder=root, seed=seed)
        weights.save_hf(
            model,
            root / HF_FOLDER,
            tokenizer=tokenizer,
            overwrite=True,
        )
        with files.atomic_write(root / KERAS_FILE) as temporary:
            model.save(temporary)
        ledger.write_checksums((root / KERAS_FILE).parent, but=(pathlib.Path(KERAS_FILE).name,))
        manifest = shard_files.read_manifest(prepared)
        finished = results.PretrainingResult(
            steps=result.steps,
            seconds=result.seconds,
            corpus=results.PretrainingCorpus(
                num_examples=manifest.num_examples, num_tokens=manifest.num_tokens
            ),
            num_parameters=model.count_params(),
            devices=tuple(strategies.devices_of(strategy)),
            held_out=figures,
            model_folder=HF_FOLDER,
        )
        results.write_result_file(finished, root / METRICS)
        return finished.model_dump(mode="json")


def _prepared(corpus: Sequence[files.Path]) -> pathlib.Path | None:
    """The prepared corpus that was given, or None for text files."""
    folders = [path for path in map(storage.located, corpus) if path.is_dir()]
    if not folders:
        return None
    if len(corpus) > 1:
        raise errors.ConfigError(
            "corpus",
            "one prepared folder, or text files",
            f"{len(corpus)} paths with a folder among them",
            "Prepare all text in one folder: `tfdistill data prepare`.",
        )
    return folders[0]


def _open_model(
    source: PretrainSource,
    prepared: pathlib.Path | None,
    config: PretrainConfig,
    root: pathlib.Path,
) -> tuple[keras.Model, Tokenizer]:
    if source.name in models.presets():
        tokenizer = _tokenizer_of(source, prepared, root)
        shape = models.preset(source.name)
        unknown = set(source.overrides) - {field.name for field in dataclasses.fields(shape)}
        if unknown:
            name = min(unknown)
            names = [field.name for field in dataclasses.fields(shape)]
            raise errors.ConfigError(
                "--shape", f"a field of {source.name}", repr(name), errors.nearest(name, names)
            )
        shape = shape.replace(**{**source.overrides, "vocab_size": tokenizer.vocab_size})
        shape = shape.replace(pad_token_id=tokenizer.pad_id)
        return models.build_masked_lm(shape, next_sentence=config.next_sentence), tokenizer
    if source.overrides:
        raise errors.ConfigError("--shape", "a preset to change", f"the checkpoint {source.name!r}")
    loaded = weights.load_masked_lm(
        source.name, new_head=source.new_head, next_sentence=config.next_sentence
    )
    tokenizer = loaded.tokenizer
    if source.vocab_file is not None:
        case = (
            tokenizer.lower_case if tokenizer and source.lower_case is None else source.lower_case
        )
        cut = tokenizer.truncation if tokenizer else "end"
        return loaded.model, read_tokenizer(source.vocab_file, case, cut)
    if tokenizer is None:
        raise errors.ConfigError(
            f"{source.name}",
            "a tokenizer.json or vocab.txt in it, or --vocab",
            "neither",
            "Pass --vocab FILE.",
        )
    return loaded.model, tokenizer.replace(lower_case=source.lower_case)


def _tokenizer_of(
    source: PretrainSource, prepared: pathlib.Path | None, root: pathlib.Path
) -> Tokenizer:
    lower_case = source.lower_case
    vocab_file: files.Path | None = source.vocab_file
    if prepared is not None:
        settings = shard_files.read_manifest(prepared).settings
        lower_case = settings["lower_case"] if lower_case is None else lower_case
        if vocab_file is None:
            vocab_file = _local_vocabulary(prepared, root)
    if vocab_file is None:
        raise errors.ConfigError(
            f"preset {source.name}",
            "a vocabulary",
            "none",
            "Pass --vocab FILE; `tfdistill data vocab` makes one from text.",
        )
    return read_tokenizer(vocab_file, lower_case)


def _local_vocabulary(prepared: Any, root: pathlib.Path) -> pathlib.Path:
    """The vocabulary of a corpus; of one at an address a copy, which models are saved with."""
    file = vocab_file_of(prepared)
    if not storage.is_remote(prepared):
        return file
    copy = root / "corpus" / file.name
    files.atomic_write_text(copy, file.read_text(encoding="utf-8"))
    return copy
