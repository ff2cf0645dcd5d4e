"""Seeded random strings that split in every way that texts do: what tokenizers are compared on."""

import random

# First and last code point of what a character is drawn from; ASCII more often than the rest.
_RANGES = (
    (32, 127),
    (32, 127),
    (32, 127),
    (0, 0x300),
    (0x300, 0x370),  # marks that combine
    (0x370, 0x3000),
    (0x3000, 0xD7FF),
    (0xE000, 0x10FFFF),
)
_WORDS = (
    *(
        "the",
        "a",
        "it",
        "good",
        "Café",
        "naïve",
        "ΣΑΣ",
        "straße",
        "我爱",
        "don't",
        "[SEP]",
        "[MASK]",
    ),
    *("##s", "e\u0301", "a\u200bb", "x" * 101, "\u00ad", "1,234.5", "#tag", "@user", "…", "😀"),
)
_SPACES = (" ", " ", "  ", "\t", "\n", "\u00a0", "\u3000", "")


def random_texts(count: int, seed: int = 1) -> list[str]:
    """Draws texts of characters from all planes, and of words with characters between them."""
    source = random.Random(seed)
    texts = []
    for index in range(count):
        length = source.randrange(25)
        if index % 2:
            parts = [chr(source.randrange(*source.choice(_RANGES))) for _ in range(length)]
        else:
            parts = [source.choice(_WORDS) + source.choice(_SPACES) for _ in range(length // 2)]
            parts += [chr(source.randrange(*source.choice(_RANGES))) for _ in range(3)]
            source.shuffle(parts)
        texts.append("".join(parts))
    return texts
