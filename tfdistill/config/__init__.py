"""Recipes: what a run does, as validated values.

A recipe is a YAML file. `load_recipe` reads it, applies dotted overrides (``data.dir=glue/SST-2``)
and reports every fault at once, with the nearest valid key for a misspelt one. Only the builders
in `tfdistill.run` see these classes; everything below takes plain arguments.
"""

from tfdistill.config.baseline import labels_alone, with_baseline
from tfdistill.config.compression import COMPRESS_SECTIONS, METHODS, CompressConfig
from tfdistill.config.inputs import (
    RECIPE_FILE,
    is_missing,
    missing_inputs,
    model_folder,
    saved_recipe,
    trained_length,
)
from tfdistill.config.pruned import (
    PrunedShape,
    StaticShape,
    is_checkpoint,
    is_pruned,
    is_static,
    parse_pruned,
    parse_static,
    short_form_faults,
)
from tfdistill.config.recipe import Recipe
from tfdistill.config.recipe_files import (
    dump_recipe,
    find_recipe,
    load_recipe,
    parse_recipe,
    parse_section,
    recipes,
    without_defaults,
)
from tfdistill.config.scaled import scaled_down
from tfdistill.config.sections import (
    BUILT_IN_DATA,
    STARTS,
    AnswersConfig,
    AugmentConfig,
    BenchmarkConfig,
    DataConfig,
    ExportConfig,
    Quantize,
    ShapeConfig,
    StudentConfig,
    TeacherConfig,
    VariantConfig,
    usual_lengths,
)
from tfdistill.config.stages import (
    ANSWERS_ALONE,
    STAGES,
    LayerMap,
    Stage,
    StageKind,
    new_stage,
)
from tfdistill.config.training import (
    FineTuneConfig,
    OptimizerConfig,
    PretrainConfig,
    TeacherPretrainConfig,
)

__all__ = [
    "ANSWERS_ALONE",
    "BUILT_IN_DATA",
    "COMPRESS_SECTIONS",
    "METHODS",
    "RECIPE_FILE",
    "STAGES",
    "STARTS",
    "AnswersConfig",
    "AugmentConfig",
    "BenchmarkConfig",
    "CompressConfig",
    "DataConfig",
    "ExportConfig",
    "FineTuneConfig",
    "LayerMap",
    "OptimizerConfig",
    "PretrainConfig",
    "PrunedShape",
    "Quantize",
    "Recipe",
    "ShapeConfig",
    "Stage",
    "StageKind",
    "StaticShape",
    "StudentConfig",
    "TeacherConfig",
    "TeacherPretrainConfig",
    "VariantConfig",
    "dump_recipe",
    "find_recipe",
    "is_checkpoint",
    "is_missing",
    "is_pruned",
    "is_static",
    "labels_alone",
    "load_recipe",
    "missing_inputs",
    "model_folder",
    "new_stage",
    "parse_pruned",
    "parse_recipe",
    "parse_section",
    "parse_static",
    "recipes",
    "saved_recipe",
    "scaled_down",
    "short_form_faults",
    "trained_length",
    "usual_lengths",
    "with_baseline",
    "without_defaults",
]
