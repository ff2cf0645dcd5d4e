"""Pre-training of a masked language model on a prepared corpus, resumable at any step."""

from __future__ import annotations

import tf_keras as keras

from tfdistill import distillers, errors, models
from tfdistill.config import PretrainConfig
from tfdistill.data import masking, shards, streaming
from tfdistill.data.streaming import StepRange
from tfdistill.io import files
from tfdistill.results import FitResult
from tfdistill.tokenization.wordpiece import WordPiece
from tfdistill.training import masked_lm, optimizers, precision
from tfdistill.training.fit import fit

_EVALUATION_SEED = 0  # the masks that a model is measured with are always the same


def pretrain(
    student: keras.Model,
    corpus: files.Path,
    tokenizer: WordPiece,
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
      What the fit did, and `masked_lm.MaskedLmEvaluation`'s figures at its end.

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
    chosen = precision.resolve(config.precision, student, folder)
    with precision.training_in(student, chosen) as trained:
        evaluation = masked_lm.MaskedLmEvaluation(trained, measured)
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
            evaluate=evaluation,
            description="pretrain",
        )
        return result, evaluation()


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
