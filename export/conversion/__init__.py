"""From a SavedModel to a TFLite file: the number formats and how each is made."""
