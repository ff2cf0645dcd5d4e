"""Recipes: what a run does, as validated values.

A recipe is a YAML file. `load_recipe` reads it, applies dotted overrides (``data.dir=glue/SST-2``)
and reports every fault at once, with the nearest valid key for a misspelt one. Only the builders
in `tfdistill.run` see these classes; everything below takes plain arguments.
"""

from tfdistill.config.baseline import with_baseline
from tfdistill.config.compression import CompressConfig
from tfdistill.config.inputs import is_missing, missing_inputs, model_folder
from tfdistill.config.recipe_files import (
    dump_recipe,
    find_recipe,
    load_recipe,
    parse_recipe,
    parse_section,
    recipes,
)
from tfdistill.config.scaled import scaled_down
from tfdistill.config.sections import (
    BUILT_IN_DATA,
    MASKED_KINDS,
    AugmentConfig,
    BenchmarkConfig,
    DataConfig,
    ExportConfig,
    FineTuneConfig,
    LayerMap,
    OptimizerConfig,
    PretrainConfig,
    Quantize,
    Recipe,
    ShapeConfig,
    StageConfig,
    StageKind,
    StudentConfig,
    TeacherConfig,
    VariantConfig,
)

__all__ = [
    "BUILT_IN_DATA",
    "MASKED_KINDS",
    "AugmentConfig",
    "BenchmarkConfig",
    "CompressConfig",
    "DataConfig",
    "ExportConfig",
    "FineTuneConfig",
    "LayerMap",
    "OptimizerConfig",
    "PretrainConfig",
    "Quantize",
    "Recipe",
    "ShapeConfig",
    "StageConfig",
    "StageKind",
    "StudentConfig",
    "TeacherConfig",
    "VariantConfig",
    "dump_recipe",
    "find_recipe",
    "is_missing",
    "load_recipe",
    "missing_inputs",
    "model_folder",
    "parse_recipe",
    "parse_section",
    "recipes",
    "scaled_down",
    "with_baseline",
]
