# TensorFlow without types: the stubs that come with the type checker describe another version.
from typing import Any

def __getattr__(name: str) -> Any: ...
