"""The comparisons that a student must stand, and what figures hide. Pure: arrays in, values out.

scikit-learn is imported when a name that needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.analysis.agreements import find_agreement, share_interval
    from tfdistill.analysis.baselines import (
        LinearModel,
        TextFeatures,
        embedding_features,
        fit_linear,
        has_linear,
        majority_logits,
        pair_features,
    )
    from tfdistill.analysis.breakdown import (
        ClassScores,
        changed_examples,
        class_scores,
        confusion_matrix,
    )
    from tfdistill.analysis.calibration import (
        NEARLY_UNIFORM,
        CalibrationScore,
        calibration_noise,
        calibration_scores,
        entropy_share,
        fit_temperature,
        is_at_end,
        negative_log_likelihood,
    )
    from tfdistill.analysis.chance import chance_level, check_model, gold_labels
    from tfdistill.analysis.data_checks import DataFindings, check_data, check_words
    from tfdistill.analysis.linear_heads import LinearHead, answer_unseen, fit_head, fit_regression
    from tfdistill.analysis.paired import (
        PairedDifference,
        least_change,
        paired_difference,
        resampled_scores,
    )
    from tfdistill.analysis.promises import (
        JudgedTexts,
        error_by_coverage,
        find_promise,
        fit_confidence,
        judge,
        judge_rows,
        temperature_of,
    )
    from tfdistill.analysis.suspects import SUSPICIOUS, Suspects, find_suspects
    from tfdistill.analysis.taggers import MOST_TAGGED_TEXTS, Tagger, fit_gazetteer, fit_tagger
    from tfdistill.analysis.unnamed_outputs import OutputMatch, match_outputs

__all__ = [
    "MOST_TAGGED_TEXTS",
    "NEARLY_UNIFORM",
    "SUSPICIOUS",
    "CalibrationScore",
    "ClassScores",
    "DataFindings",
    "JudgedTexts",
    "LinearHead",
    "LinearModel",
    "OutputMatch",
    "PairedDifference",
    "Suspects",
    "Tagger",
    "TextFeatures",
    "answer_unseen",
    "calibration_noise",
    "calibration_scores",
    "chance_level",
    "changed_examples",
    "check_data",
    "check_model",
    "check_words",
    "class_scores",
    "confusion_matrix",
    "embedding_features",
    "entropy_share",
    "error_by_coverage",
    "find_agreement",
    "find_promise",
    "find_suspects",
    "fit_confidence",
    "fit_gazetteer",
    "fit_head",
    "fit_linear",
    "fit_regression",
    "fit_tagger",
    "fit_temperature",
    "gold_labels",
    "has_linear",
    "is_at_end",
    "judge",
    "judge_rows",
    "least_change",
    "majority_logits",
    "match_outputs",
    "negative_log_likelihood",
    "pair_features",
    "paired_difference",
    "resampled_scores",
    "share_interval",
    "temperature_of",
]

__getattr__, __dir__ = lazy_exports(__name__)
