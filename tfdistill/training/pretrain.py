"""Pre-training of a masked language model on a prepared corpus, resumable at any step."""

from __future__ import annotations

import dataclasses
from typing import Literal

import tf_keras as keras

from tfdistill import distillers, errors, files, models
from tfdistill.data import masking, shards, tokenize
from tfdistill.training import masked_lm, optimizers
from tfdistill.training.fit import FitResult, fit
from tfdistill.training.stretch import Stretch

_EVALUATION_SEED = 0  # the masks that a model is measured with are always the same


@dataclasses.dataclass(frozen=True)
class PretrainConfig:
    """How to pre-train; the defaults suit a small model.

    Attributes:
      steps: Batches in all; None counts `epochs` instead.
      epochs: Epochs of the corpus.
      batch_size: Examples of a batch.
      gradient_accumulation: Batches of an optimizer step.
      optimizer: "adamw" or "lamb".
      learning_rate: The peak rate.
      schedule: "linear" falls to 0 at the last step, "constant" stays.
      warmup: The share of the steps in which the rate rises.
      weight_decay: Decay, not of biases and norms.
      next_sentence: Whether to train next-sentence prediction too.
      mask_rate: The share of tokens that is chosen for prediction.
      smoothing: Exponent of smoothed masking (DistilBERT: 0.7), or None for equal probabilities.
      whole_words: Whether the pieces of a word are masked together.
      held_out: The share of the corpus, at the end of each shard, that is never trained on.
      held_out_examples: At most so many of them are evaluated.
      evaluations: The most evaluations on the way; the steps are cut into as many equal parts as
        divide them, each with its row in history.csv.
      checkpoint_every: Steps between checkpoints.
      precision: "float32" or "mixed_bfloat16".
      seed: Seed of initialisation, order, masks and dropout.
    """

    steps: int | None = None
    epochs: int = 1
    batch_size: int = 32
    gradient_accumulation: int = 1
    optimizer: Literal["adamw", "lamb"] = "adamw"
    learning_rate: float = 5e-4
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = 0.05
    weight_decay: float = 0.01
    next_sentence: bool = False
    mask_rate: float = 0.15
    smoothing: float | None = None
    whole_words: bool = False
    held_out: float = 0.01
    held_out_examples: int = 2000
    evaluations: int = 10
    checkpoint_every: int = 500
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    seed: int = 1

    def __post_init__(self) -> None:
        """Reports every fault at once.

        Raises:
          ConfigError: If an option is out of range.
        """
        least = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "gradient_accumulation": self.gradient_accumulation,
            "held_out_examples": self.held_out_examples,
            "evaluations": self.evaluations,
            "checkpoint_every": self.checkpoint_every,
            **({} if self.steps is None else {"steps": self.steps}),
        }
        faults = [errors.explain(n, "at least 1", v) for n, v in least.items() if v < 1]
        choices = {
            "optimizer": ("adamw", "lamb"),
            "schedule": ("linear", "constant"),
            "precision": ("float32", "mixed_bfloat16"),
        }
        for name, valid in choices.items():
            if getattr(self, name) not in valid:
                faults.append(errors.explain(name, " or ".join(valid), repr(getattr(self, name))))
        if not 0 < self.learning_rate < float("inf"):
            faults.append(errors.explain("learning_rate", "above 0", self.learning_rate))
        if not 0 < self.held_out < 1:
            faults.append(errors.explain("held_out", "a share between 0 and 1", self.held_out))
        if faults:
            raise errors.ConfigError("\n".join(faults))


def pretrain(
    student: keras.Model,
    corpus: files.Path,
    tokenizer: tokenize.Tokenizer,
    config: PretrainConfig,
    *,
    folder: files.Path,
) -> tuple[FitResult, dict[str, float]]:
    """Trains a masked language model on a prepared corpus and measures it on its held-out part.

    Killed at any moment and called again with the same arguments, it goes on from the last
    checkpoint with the same batches and the same masks.

    Args:
      student: A model of `models.build_masked_lm`; trained in place.
      corpus: A folder of `data.shards.prepare_corpus`.
      tokenizer: The tokenizer of the model.
      config: How to train.
      folder: Gets checkpoints/, history.csv and tensorboard/.

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
        corpus, config.batch_size, config.seed, tokenizer=tokenizer, held_out=config.held_out
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
    # Measured with equal probabilities, whatever is trained with: figures can be compared.
    evaluation = masked_lm.MaskedLmEvaluation(
        student,
        masking.MaskedBatches(
            held_out, masking.Masker(tokenizer, rate=config.mask_rate), _EVALUATION_SEED
        ),
    )
    total = config.steps or config.epochs * train.steps_per_epoch
    stretch = Stretch(
        masking.MaskedBatches(train, masker, config.seed),
        start=0,
        steps=total,
        most_parts=config.evaluations,
    )
    trainer = distillers.MaskedLmTrainer(student, seed=config.seed)
    trainer.compile(
        _optimizer(config, total),
        loss_weights={"nsp": float(config.next_sentence)},
        gradient_accumulation=config.gradient_accumulation,
    )
    result = fit(
        trainer,
        stretch,
        epochs=stretch.parts,
        folder=folder,
        evaluate=evaluation,
        checkpoint_every=config.checkpoint_every,
        description="pretrain",
    )
    return result, evaluation()


def _optimizer(config: PretrainConfig, batches: int) -> keras.optimizers.Optimizer:
    build = {"adamw": optimizers.adamw, "lamb": optimizers.lamb}[config.optimizer]
    return build(
        config.learning_rate,
        total_steps=max(batches // config.gradient_accumulation, 1),
        schedule=config.schedule,
        warmup=config.warmup,
        weight_decay=config.weight_decay,
        clip="global",
    )


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
