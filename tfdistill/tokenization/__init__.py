"""How a text becomes ids: a tokenizer is one value, whichever file it was read from.

`wordpiece` has the value, `reading` reads it from a vocabulary, a Hugging Face folder or an
exported file, `library` encodes single texts and judges a tokenizer.json by its answers, `words`
encodes many texts inside a TensorFlow graph. Only `words` loads TensorFlow.
"""
