"""The vocabulary of a run and the plain text of its stages: in memory, or from prepared shards."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from typing import Any, Literal

from tfdistill import config, errors, training, weights
from tfdistill.data import batches, corpus, masking, shards, streaming, synthetic, vocab
from tfdistill.data.task_data import TextData
from tfdistill.io import storage
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

TEACHER = "teacher"  # the name of the text that the teacher is pre-trained on
HELD_OUT = 0.01  # of the text under a head for masked words


@dataclasses.dataclass(frozen=True)
class Corpus:
    """The text of one stage: `encoded` in memory, or a `folder` of shards."""

    tokenizer: Tokenizer
    encoded: batches.EncodedExamples | None = None
    folder: pathlib.Path | None = None

    def batches(
        self, settings: config.Stage, seed: int, *, held_out: float = 0.0
    ) -> training.TrainingBatches:
        """Plans the batches of a stage."""
        if self.folder is not None:
            return shards.ShardedBatches(
                self.folder,
                settings.batch_size,
                seed,
                tokenizer=self.tokenizer,
                bucketing=settings.bucketing,
                held_out=held_out,
            )
        assert self.encoded is not None
        return batches.Batches(
            self.encoded,
            batch_size=settings.batch_size,
            token_budget=settings.token_budget,
            bucketing=settings.bucketing,
            max_length=None if settings.bucketing else settings.max_length,
            seed=seed,
        )

    def masked(
        self, settings: config.Stage, seed: int, *, predict: Literal["masked", "all"]
    ) -> training.TrainingBatches:
        """Plans the batches of a stage that guesses masked words; some text is held out."""
        assert self.folder is not None
        smoothing = settings.mask_smoothing
        masker = masking.Masker(
            self.tokenizer,
            rate=settings.mask_rate,
            predict=predict,
            token_counts=shards.token_counts(self.folder) if smoothing else None,
            smoothing=smoothing,
        )
        return streaming.MappedBatches(
            self.batches(settings, seed, held_out=HELD_OUT), masker, seed
        )

    def held_out(self, *, batch_size: int, mask_rate: float) -> training.TrainingBatches:
        """The text that `masked` leaves out, always under the same masks."""
        assert self.folder is not None
        text = shards.ShardedBatches(
            self.folder, batch_size, shuffle=False, held_out=HELD_OUT, part="held_out", limit=2000
        )
        return streaming.MappedBatches(text, masking.Masker(self.tokenizer, rate=mask_rate), 0)


def open_corpus(
    name: str,
    settings: config.Stage | config.TeacherPretrainConfig,
    *,
    tokenizer: Tokenizer,
    max_length: int,
    source: pathlib.Path | None,
    folder: pathlib.Path,
    seed: int,
) -> Corpus:
    """Reads, prepares or opens the text of a stage.

    Its `corpus` names text files, or one folder of shards; without any the corpus.txt in `source`,
    the folder of the task, is read. Where words are masked, text is prepared into shards in
    `folder`, of which some is held out; otherwise `max_tokens` are drawn of the text in memory.
    """
    is_stage = isinstance(settings, config.Stage)
    masked = not is_stage or settings.traits.predicts_words is not None
    max_tokens = settings.max_tokens if is_stage else None
    paths = [storage.located(path) for path in settings.corpus]
    prepared = any(path.is_dir() for path in paths)
    if prepared and (len(paths) > 1 or max_tokens is not None):
        raise errors.ConfigError(
            f"corpus of {name}",
            "text files, or one folder of shards; max_tokens only for text in memory",
            f"{settings.corpus}, max_tokens {max_tokens}",
            "`tfdistill data prepare` makes one folder of any number of files.",
        )
    if prepared:
        return Corpus(tokenizer, folder=paths[0])
    if not paths and source is not None:
        paths = [source / synthetic.CORPUS_NAME]
    length = settings.max_length or max_length
    if masked:
        # Stages that read the same text in the same way share their shards.
        what = repr((settings.corpus, length, settings.next_sentence)).encode()
        target = folder / f"shards-{hashlib.sha256(what).hexdigest()[:12]}"
        shards.prepare_corpus(
            paths,
            tokenizer,
            target,
            max_length=length,
            next_sentence=settings.next_sentence,
            resume=True,
        )
        return Corpus(tokenizer, folder=target)
    encoded = corpus.encode_corpus(
        paths, tokenizer, max_length=length, max_tokens=max_tokens, seed=seed
    )
    return Corpus(tokenizer, encoded=encoded)


def open_texts(
    recipe: config.Recipe,
    folder: pathlib.Path,
    source: pathlib.Path | None = None,
    sentences: list[str] | None = None,
) -> tuple[TextData, dict[str, Corpus]]:
    """Opens the tokenizer, and the text of every stage on plain text.

    Vocabularies and shards are written into `folder`. `source` is the folder of the
    task, `sentences` are its texts, None without a task.
    """
    tokenizer = _tokenizer(recipe, folder, source, sentences)
    named: dict[str, Any] = {n: s for n, s in recipe.used_stages.items() if s.on_corpus}
    if recipe.teacher.pretrain is not None:
        named[TEACHER] = recipe.teacher.pretrain
    read = {
        name: open_corpus(
            name,
            settings,
            tokenizer=tokenizer,
            max_length=recipe.data.max_length,
            source=source,
            folder=folder,
            seed=seed,
        )
        for seed, (name, settings) in enumerate(named.items(), recipe.seeds[0])
    }
    seed = recipe.seeds[0]
    return TextData(settings=recipe.data, seed=seed, tokenizer=tokenizer, task=None), read


def tokenizer_of(settings: config.DataConfig, model: str) -> Tokenizer:
    """The tokenizer that a data section names: that of a model, or of a vocabulary."""
    case, cut, prompt = settings.lower_case, settings.truncation, settings.prompt
    if settings.vocab != "teacher":
        return read_tokenizer(settings.vocab, case, cut or "end", prompt or "")
    checkpoint = weights.open_checkpoint(model, shapes_only=True)
    tokenizer = weights.existing_tokenizer(checkpoint.tokenizer, model)
    if prompt is None and settings.gives_vectors:
        prompt = weights.sentence_prompt(model)
    return tokenizer.replace(lower_case=case, truncation=cut, prompt=prompt)


def _tokenizer(
    recipe: config.Recipe,
    folder: pathlib.Path,
    source: pathlib.Path | None,
    sentences: list[str] | None,
) -> Tokenizer:
    """The tokenizer: of teacher or student, a file's, or with words trained on the texts."""
    settings = recipe.data
    if not settings.vocab.startswith("train:"):
        # Answers alone have no vocabulary: the student's checkpoint has one.
        teacher = recipe.teacher
        return tokenizer_of(
            settings, teacher.source if teacher.answers is None else recipe.student.start
        )
    path, lower_case = folder / "vocab.txt", settings.lower_case is not False
    if not path.is_file():
        if sentences is None:
            sentences = _corpus_lines(recipe, source)
        size = int(settings.vocab.removeprefix("train:"))
        vocab.write_vocab(vocab.train_vocab(sentences, size, lower_case=lower_case), path)
    return read_tokenizer(path, lower_case, settings.truncation or "end", settings.prompt or "")


def _corpus_lines(recipe: config.Recipe, source: pathlib.Path | None) -> list[str]:
    """The text files that the recipe names, or the generated one."""
    named = [path for stage in recipe.used_stages.values() for path in stage.corpus]
    paths = [pathlib.Path(path) for path in dict.fromkeys(named)]
    if not paths and source is not None:
        paths = [source / synthetic.CORPUS_NAME]
    if not paths or any(path.is_dir() for path in paths):
        raise errors.ConfigError(
            "data.vocab",
            "a vocabulary file, where the corpus is prepared already",
            recipe.data.vocab,
            "`tfdistill data vocab` makes one of text files.",
        )
    return [line for document in corpus.documents(paths) for line in document]
