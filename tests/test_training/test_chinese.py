"""Chinese text, from a file to a classifier that has learnt it."""

import numpy as np
import pytest
import tf_keras as keras
import toys

from tfdistill import analysis, distillers, models, tasks, training
from tfdistill.data import batches
from tfdistill.tokenization.reading import read_tokenizer

GOOD = ("好", "喜欢", "精彩", "推荐")
BAD = ("差", "讨厌", "无聊", "失望")
SENTENCES = ("这部电影很{}。", "我觉得故事{}！", "「{}」，大家都这么说", "{}的一本书，2024年")


def reviews(split):
    """Of each sentence another word stays for the dev split."""
    for place, sentence in enumerate(SENTENCES):
        for number in range(4):
            if (number == place) == (split == "dev"):
                yield sentence.format(GOOD[number]), "正面"
                yield sentence.format(BAD[number]), "负面"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("reviews")
    for split in ("train", "dev"):
        lines = ["评论\t标签", *(f"{text}\t{label}" for text, label in reviews(split))]
        (path / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def vocab_file(shared_data):
    return shared_data / "vocab" / "bert-base-chinese-vocab.txt"


@pytest.mark.shared_data
def test_each_ideograph_is_a_token_at_its_own_place(vocab_file):
    tokenizer = read_tokenizer(vocab_file)
    text = "这部电影很好。「2024年」"
    located = tokenizer.locate([text])
    assert tokenizer.unk_id not in located.ids
    words = [tokenizer.vocab[index] for index in located.ids]
    assert words[:7] == [*"这部电影很好", "。"]
    places = zip(located.starts, located.ends, strict=True)
    pieces = [text[start:end] for start, end in places]
    assert "".join(pieces) == text
    assert [word.removeprefix("##") for word in words] == pieces


@pytest.mark.slow
@pytest.mark.shared_data
def test_a_classifier_learns_chinese_reviews(folder, vocab_file):
    spec = tasks.TaskSpec("评价", "评论", "标签").with_labels_of(folder)
    assert set(spec.labels) == {"正面", "负面"}
    tokenizer = read_tokenizer(vocab_file)
    train, dev = (
        batches.Batches(
            batches.encode_examples(tasks.load_examples(spec, folder, split), tokenizer, 24),
            batch_size=8,
        )
        for split in ("train", "dev")
    )
    keras.utils.set_random_seed(1)
    shape = toys.SHALLOW_STUDENT.replace(
        vocab_size=tokenizer.vocab_size, max_positions=24, hidden_size=16
    )
    model = models.build_classifier(shape, 2)
    trainer = distillers.LabelTrainer(model)
    trainer.compile(keras.optimizers.Adam(0.01))
    trainer.fit(train.dataset(epochs=20), verbose=0)
    assert len(np.unique(analysis.gold_labels(dev.encoded))) == 2
    assert training.evaluate(model, dev, spec)["accuracy"] == 1.0
