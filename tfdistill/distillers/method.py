"""What the distillers of the methods have in common: their options are those of `methods`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import tf_keras as keras

from tfdistill.distillers import base
from tfdistill.losses import methods

_FROM_MODELS = ("regression", "next_sentence")  # parameters that follow from the two models


class MethodDistiller(base.Distiller):
    """Distils with the losses of a method; keywords that are not named here are its options.

    A subclass names its function of `methods`, from which options and defaults are taken.
    """

    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, method: Callable[..., methods.Losses]):
        """Shows the options of the method in the signature of the class."""
        super().__init_subclass__()
        parameters = inspect.signature(method).parameters.items()
        options = [p.replace(kind=p.KEYWORD_ONLY) for n, p in parameters if n not in _FROM_MODELS]
        cls.defaults = {option.name: option.default for option in options}
        _, teacher, student, *common, _ = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature([teacher, student, *options, *common])

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        same_tokens: bool = True,
        seed: int = 0,
        name: str | None = None,
        **options: Any,
    ):
        """Builds the losses, and checks that the pair fits; see the class."""
        losses = self.losses_of(teacher, student, **{**self.defaults, **options})
        super().__init__(teacher, student, losses, same_tokens=same_tokens, seed=seed, name=name)

    @staticmethod
    def losses_of(teacher: keras.Model, student: keras.Model, **options: Any) -> methods.Losses:
        """Builds the losses of a teacher and a student, with all options."""
        raise NotImplementedError
