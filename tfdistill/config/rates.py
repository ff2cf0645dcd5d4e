"""The peak learning rates that are used where nobody names one: all of them, in one table.

Wide models take smaller steps, in inverse proportion to their width, as in Yang et al. 2022, Tensor
Programs V, for Adam.
"""

from __future__ import annotations

STAGE = 5e-5
FINE_TUNING = 5e-5
PRETRAINING = 5e-4
SCALED_DOWN_PRETRAINING = 1e-4
GENERAL = 3e-4
"""A general stage that `distill --corpus` puts in front."""
STATIC = 3e-3
"""A student of word vectors: tried on questions of 6 types."""
PUBLISHED_MOBILEBERT = 1.5e-3
_JOINT, _JOINT_WIDTH = 3e-4, 384
_TEACHER, _TEACHER_WIDTH = 5e-5, 768


def joint(width: int) -> float:
    """The rate of a student that starts pruned: ``3e-4 * min(1, 384 / width)``.

    Measured for students that are 192 to 384 wide (docs/guides/methods/pruned.md).
    """
    return _JOINT * min(1.0, _JOINT_WIDTH / width)


def teacher(width: int) -> float:
    """The rate of a teacher that `quickstart` fine-tunes: 5e-5 at 768, at most twice as much."""
    return _TEACHER * min(2.0, max(1.0, _TEACHER_WIDTH / width))
