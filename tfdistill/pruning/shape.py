"""The shape of a pruned student: what fits into which teacher."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill import errors, models
from tfdistill.config.short_forms import PrunedShape

_INSTEAD = "Start it with student.initialise=teacher (its word vectors) or random instead."
# Fields in which a pruned student must be as its teacher.
_SAME = ("vocab_size", "hidden_act", "layer_norm_eps")
_ALIKE = {"gelu", "gelu_tanh"}  # nowhere more than 0.0005 apart: the teacher's matrices serve both


def pruned_config(teacher: models.EncoderConfig, shape: PrunedShape) -> models.EncoderConfig:
    """Returns the configuration of a student that keeps `shape` of its teacher.

    Heads keep the teacher's size. Where only the width is given, there are as many as fill it.

    Args:
      teacher: The teacher's configuration.
      shape: What is kept.

    Raises:
      ConfigError: If the teacher is smaller, or its heads do not divide the width.
      ShapeError: If the teacher is of a family that cannot be pruned.
    """
    _check_family(teacher, "teacher")
    teacher_width = teacher.head_width
    width = shape.width or teacher.hidden_size
    size, heads = shape.head_size or teacher_width, shape.heads or teacher.num_heads
    if shape.width is not None and shape.heads is None and shape.head_size is None:
        heads, rest = divmod(min(width, teacher.attention_width), size)
        if rest or not heads:
            raise errors.ConfigError(
                str(shape),
                f"a width that the teacher's heads of {size} divide",
                width,
                "Give heads and head_size too, such as "
                f"heads={teacher.num_heads},head_size={max(1, width // teacher.num_heads)}.",
            )
    factor = teacher.embedding_size  # where its word table is factorised, and that saves something
    if factor is not None and factor >= width:
        factor = None
    student = teacher.replace(
        num_layers=shape.layers or teacher.num_layers,
        hidden_size=width,
        num_heads=heads,
        head_size=size,
        intermediate_size=shape.ffn or teacher.intermediate_size,
        embedding_size=shape.embedding or factor,
    )
    check_prunable(teacher, student)
    return student


def check_prunable(teacher: models.EncoderConfig, student: models.EncoderConfig) -> None:
    """Refuses a student that cannot be cut out of a teacher.

    Args:
      teacher: The teacher's configuration.
      student: The student's.

    Raises:
      ConfigError: If the student is larger in any size or differs in what pruning cannot change;
        the message lists every fault and says how such a student starts instead.
      ShapeError: If one of them is an ELECTRA, a MobileBERT or a BiLSTM.
    """
    for config, role in ((teacher, "teacher"), (student, "student")):
        _check_family(config, role)
    faults = list(_faults(teacher, student))
    if faults:
        raise errors.ConfigError("\n".join([*faults, _INSTEAD]))


def _check_family(config: models.EncoderConfig, role: str) -> None:
    plain = isinstance(config, models.EncoderConfig)
    if not plain or config.family in ("electra", "mobilebert"):
        raise errors.ShapeError(
            f"{role} to prune",
            "a BERT, TinyBERT or DistilBERT, whose layers can be cut",
            f"a {config.family}",
            _INSTEAD if role == "student" else "Prune a student of a BERT teacher.",
        )


def _faults(teacher: models.EncoderConfig, student: models.EncoderConfig) -> Iterator[str]:
    sizes = {
        "num_layers": (teacher.num_layers, student.num_layers),
        "hidden_size": (teacher.hidden_size, student.hidden_size),
        "num_heads": (teacher.num_heads, student.num_heads),
        "head size": (teacher.head_width, student.head_width),
        "intermediate_size": (teacher.intermediate_size, student.intermediate_size),
    }
    for name, (teacher_size, student_size) in sizes.items():
        if student_size > teacher_size:
            expected = f"at most the teacher's {teacher_size}"
            yield errors.explain(f"{name} of a pruned student", expected, student_size)
    for name in _SAME:
        teacher_size, student_size = getattr(teacher, name), getattr(student, name)
        if student_size != teacher_size and not {student_size, teacher_size} <= _ALIKE:
            yield errors.explain(
                f"{name} of a pruned student", f"the teacher's {teacher_size!r}", student_size
            )
