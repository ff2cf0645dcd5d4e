"""export: a trained model as a checked TFLite file, and in other formats."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors
from tfdistill.commands import (
    base,
    export_job,
    export_list,
    export_reuse,
    export_targets,
    options,
    plan,
    vocabulary_options,
)
from tfdistill.data import labelled_file
from tfdistill.io import locks, work_folder
from tfdistill.manifest.confidence import moved_coverage
from tfdistill.results import quantities

if TYPE_CHECKING:
    from tfdistill.manifest import Manifest, Parity

# Options beside which a run's file keeps its size.
_SIZE_STAYS = {
    *("promise_on", "min_recall", "answer_column", "answered_by"),
    *("allow_weak", "name", "lengths", "softmax"),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    text = "a run folder, or a Hugging Face folder with a classifier; --list needs none"
    options.add_plain(parser, {"model": text}, nargs="?")
    options.add_output(
        parser,
        what="folder to write (default: MODEL/export, or next to an earlier one "
        "MODEL/export-QUANTIZATION, with --size-mb MODEL/export-MBmb)",
        required=False,
        overwrite="replace earlier results",
    )
    name = {"--name NAME": "name in the manifest (default: the name of MODEL)"}
    options.add_plain(parser, name)
    options.add_lengths(parser, "those that fit the development set, else 32,64,128")
    text = "calibrated probabilities instead of logits"
    options.add_field(parser, config.ExportConfig, "softmax", help=text)
    text = "keep only the tokens that this text (UTF-8, a sentence a line) needs"
    options.add_plain(parser, {"--vocab-prune FILE": text})
    vocabulary_options.add(parser, "default: the whole; texts of the task stay as they are")
    _numbers(parser.add_argument_group("quantization"))
    export_list.add_arguments(parser)
    export_targets.add_arguments(parser)
    group = parser.add_argument_group("model card (README.md)")
    group.add_argument("--license", metavar="NAME", help="its licence, such as apache-2.0")
    group.add_argument("--card-language", metavar="CODE", help="language of the texts, such as en")
    options.add_allow_weak(parser, "a model that answers near chance")
    options.add_data(parser, required=False, of_run="model", one_file=True)
    for field in ("promise_on", "min_recall", "prompt"):
        options.add_field(parser, config.DataConfig, field)
    for field in ("answer_column", "answered_by"):
        options.add_field(parser, config.ModelAnswersConfig, field, None)
    options.add_json(parser)


def _numbers(group: Any) -> None:
    group.add_argument(
        "--quantize",
        type=lambda text: ",".join(map(config.quantization_name, text.split(","))),
        metavar="NAME",
        help="int8, int4, float16, float32, static_wi8_ai8, ... (default: int8, which is "
        "dynamic_wi8_afp32; of a run that of its recipe or of its training); auto: the "
        "smallest or fastest that costs no more than --max-drop",
    )
    options.add_field(group, config.ExportConfig, "size_mb", metavar="MB")
    text = "with auto and --size-mb: maximum drop of the task's metric (default: 0.01)"
    options.add_plain(group, {"--max-drop X": text})
    group.add_argument(
        "--prefer", choices=("size", "latency"), help="with auto: what is best (default: size)"
    )
    group.add_argument(
        "--for",
        dest="devices",
        type=_devices,
        default={"cpu": None},
        metavar="DEVICES",
        help="target hardware: cpu or gpu (default: cpu); changes the graph of the file; "
        "cpu,gpu:float32 writes a file for each, with one manifest",
    )
    group.add_argument(
        "--layers",
        type=_pattern,
        action="append",
        default=[],
        metavar="PATTERN=NAME",
        help="another quantization for some layers, such as 'layer_0_*=float32'; may be repeated",
    )
    text = "training examples that calibrate a static quantization (default: 200)"
    options.add_plain(group, {"--calibrate N": text})
    options.add_seed(group, "the draw of these examples", None)


def _devices(text: str) -> dict[str, str | None]:
    """Parses "gpu:float32,cpu": device -> its own quantization; the CPU comes first."""
    from export.conversion import device_form

    parts = [part.strip().partition(":") for part in text.split(",")]
    chosen = {
        device: config.quantization_name(name) if colon else None for device, colon, name in parts
    }
    forms = device_form.FORMS
    if len(chosen) < len(parts) or not chosen.keys() <= forms.keys() or "" in chosen.values():
        raise argparse.ArgumentTypeError(
            f"expected different ones of {', '.join(forms)}, each with an optional quantization as "
            f"in gpu:float32, received {text!r}"
        )
    return dict(sorted(chosen.items(), key=lambda item: item[0] != "cpu"))


def _pattern(text: str) -> tuple[str, str]:
    """Parses "layer_0_*=float32"."""
    pattern, _, name = text.rpartition("=")
    if not pattern or not name:
        raise argparse.ArgumentTypeError(
            f"expected a pattern of layer names and a quantization such as 'layer_0_*=float32', "
            f"received {text!r}"
        )
    return pattern, config.quantization_name(name)


def _execute(args: argparse.Namespace) -> None:
    if args.data is not None and args.task is None:
        args.task = labelled_file.name_of(args.data)
    if args.list:
        export_list.execute(args)
        return
    parser = base.Parser()
    _arguments(parser)
    named = export_reuse.named_options(args, parser)
    of_run = _usual_form(args.model, list(args.devices))
    args.quantize = args.quantize or of_run.quantize
    args.of_run = of_run if named.keys() <= _SIZE_STAYS else config.ExportConfig()
    layers = dict(args.layers)
    faults = list(_faults(args, layers))
    if args.model is None:
        faults.append(errors.explain("model", "a run or a model folder", "none"))
    if faults or args.model is None:
        raise errors.ConfigError("\n".join(faults))
    plan.model(args.model, "model", hub=False)
    from tfdistill.commands import export_data

    further = export_data.check(args)
    request = export_reuse.request_of(args, named)
    if (checked := export_reuse.checked_file(args, named, request)) is not None:
        folder, card = checked
        print(f"{folder}: checked before, and used again", file=sys.stderr)
        return _export(args, folder, layers, further, card)
    target = _target(args)
    with (
        locks.output_lock(target) if args.out is None else contextlib.nullcontext(),
        work_folder.WorkFolder(target, "export").open(resume=True),  # `_target` has checked it
    ):
        _export(args, target, layers, further)
        export_reuse.record(target, request)


def _usual_form(model: str | None, devices: list[str]) -> config.ExportConfig:
    """What the student of a run was trained for, or its recipe exports, to the CPU alone."""
    recipe = None if model is None else config.saved_recipe(model)
    if recipe is not None and recipe.gives_quantize_aware:
        return config.ExportConfig(quantize=config.QUANTIZE_AWARE)
    return config.ExportConfig() if recipe is None or devices != ["cpu"] else recipe.export


def _export(
    args: argparse.Namespace,
    target: pathlib.Path,
    layers: dict[str, str],
    further: list[str],
    manifest: Manifest | None = None,
) -> None:
    """Writes the file and all other targets; with the manifest of a checked file only these."""
    from export.targets import android_bundle
    from tfdistill import report, results
    from tfdistill.tflite import runtimes

    name = args.name or pathlib.Path(args.model).resolve().name
    automatic = args.quantize == export_job.AUTO
    sized = args.size_mb or args.of_run.size_mb or args.of_run.goal_mb
    unknown = automatic or sized is not None  # then the name of the bundle is, too
    device, quantize = next(iter(export_job.formats(args).items()))
    bundle = android_bundle.bundle_name(name, export_job.AUTO if unknown else quantize, device)
    if manifest is not None:
        named = manifest.name, manifest.quantization, manifest.device
        bundle = android_bundle.bundle_name(*named)
    export_targets.check_paths(args, bundle)
    pruned: dict[str, Any] = {}
    written: dict[str, str] = {}
    shrunken, fresh = False, manifest is None
    if manifest is None or any(getattr(args, name) for name in export_reuse.TARGETS):
        job = export_job.open_job(args)
        cut = options.section_of(args, vocabulary_options.PLACE)
        if args.vocab_prune is not None or cut:
            job, pruned = export_job.prune(job, args.vocab_prune, cut)
        export_targets.check_model(args, job)
        if manifest is None:
            whole = job
            job, manifest = export_job.write(args, job, layers, target / "model.tflite", name)
            shrunken = job.source.model is not whole.source.model
        written = export_targets.write(args, job, target / manifest.model.file)
        _write_cards(args, manifest, target, name, fresh=fresh)
    model, reported = pathlib.Path(args.model), None
    inside = target.resolve().parent == model.resolve()
    # A folder that is shipped gets none.
    if fresh and inside and (model / results.METRICS_FILE).is_file():
        reported = report.write(model)[0]
    lines: list[str] = []
    for file in manifest.each_file():
        lines.append(f"{target / file.model.file}: {quantities.size(file.model.size_bytes)}")
        if unknown or manifest.variants:
            lines.append(
                f"quantization: {file.quantization} {file.quantized_layers or ''}".rstrip()
            )
        if file.least_runtime is not None:
            depends = args.android is not None and file.least_runtime not in runtimes.OF_MODULE
            dependency = ", which the app must depend on: docs/guides/own-app.md" if depends else ""
            lines.append(f"runs in: {file.least_runtime} and later{dependency}")
        if file.parity is not None:
            # Of limited size, the words are fewer or in two factors; the summary has the whole one.
            lines += _checked(file.parity, "shrunken model" if shrunken else "model")
        if file.confidence is not None:
            lines += file.confidence.summary
    moved = moved_coverage(export_job.confidences(args.model, target, manifest))
    lines += [f"share of sure answers: {clause}" for clause in moved]
    lines += [f"{key}: {value}" for key, value in pruned.items()]
    lines += [f"{name}: {path}" for name, path in written.items()]
    lines.append(f"report: {reported or f'tfdistill report {shlex.quote(str(target))}'}")
    lines += [*export_targets.next_step(manifest, str(target)), *further]
    result = {**manifest.model_dump(mode="json"), "also_written": written}
    if pruned:
        result["vocabulary"] = pruned
    base.show(result, as_json=args.json, lines=lines)


def _write_cards(
    args: argparse.Namespace, manifest: Manifest, target: pathlib.Path, name: str, *, fresh: bool
) -> None:
    from tfdistill.results import model_card
    from tfdistill.run import model_cards

    facts = model_card.CardFacts()
    if args.task is None:  # otherwise the figures of the run are of other data
        facts = model_cards.evidence(pathlib.Path(args.model), manifest)
    told = {"name": name, "license": args.license, "language": args.card_language}
    facts = dataclasses.replace(facts, **told)
    if fresh:
        model_cards.write(target, manifest, facts)
    if args.hf is not None:
        model_card.write(args.hf, model_card.of_checkpoint(manifest, facts))


def _target(args: argparse.Namespace) -> pathlib.Path:
    """Chooses the folder of the file, and refuses one that holds a file already."""
    usual = pathlib.Path(args.model) / "export"
    beside = usual.exists() and not args.overwrite
    suffix = args.quantize if args.size_mb is None else f"{args.size_mb:g}mb"
    target = usual.with_name(f"export-{suffix}") if beside else usual
    if args.out is not None:
        target = pathlib.Path(args.out)
    exported = target / "model.tflite"
    if args.mediapipe is not None and pathlib.Path(args.mediapipe).resolve() == exported.resolve():
        raise errors.ConfigError("--mediapipe", "another file", "the exported file itself")
    fresh = not exported.exists()
    work_folder.WorkFolder(target, "export").check(resume=fresh, overwrite=args.overwrite)
    return target


def _checked(parity: Parity, model: str) -> list[str]:
    bounds = parity.bounds

    def limit(name: str, direction: str) -> str:
        return f" ({direction} {bounds[name]:g})" if name in bounds else ""

    sqnr = "equal bit by bit" if parity.sqnr_db is None else f"SQNR {parity.sqnr_db:.1f} dB"
    facts = [sqnr + limit("sqnr_db", "at least")]
    if parity.argmax_agreement is not None:
        same = f"same {parity.answer_word} {parity.argmax_agreement:.4f}"
        facts.append(same + limit("argmax_agreement", "at least"))
    if parity.min_cosine is not None:
        facts.append(f"cosines of at least {parity.min_cosine:.4f}")
    if parity.neighbour_agreement is not None:
        facts.append(f"{parity.neighbour_agreement:.1%} of the ten nearest texts the same")
    if parity.output_rms:
        largest = (
            f"largest error {parity.max_abs_error / parity.output_rms:.3g} of the outputs' rms"
        )
        facts.append(largest + limit("max_error", "at most"))
    lines = [f"checked on {parity.num_examples} {parity.inputs} inputs: {', '.join(facts)}"]
    lines += [
        f"{name}: file {value:.4f}, {model} {parity.model_metrics[name]:.4f}"
        for name, value in parity.file_metrics.items()
    ]
    if not parity.file_metrics:
        lines.append("metric: none, since there are no labels; only the agreement was checked")
    return lines


def _faults(args: argparse.Namespace, layers: dict[str, str]) -> Iterator[str]:
    from export.conversion import device_form
    from export.conversion import quantize as quantizing

    for option in ("measure", "threads"):
        if getattr(args, option) is not None:
            yield errors.explain(f"--{option}", "--list too", "none")
    if args.promise_on is None and options.section_of(args, "data.model_answers"):
        of_run = config.data_of_run(args.model)
        if of_run is None or of_run.promise_on is None:
            expected = "--promise-on FILE too, whose texts the model answered"
            yield errors.explain("--answer-column, --answered-by", expected, "none")
    automatic = args.quantize == export_job.AUTO
    if automatic and list(args.devices.items()) != [("cpu", None)]:
        yield errors.explain("--for", "cpu with --quantize auto", ", ".join(args.devices))
    for device, quantize in export_job.formats(args).items():
        option = "--quantize" if args.devices[device] is None else "--for"
        named = [] if automatic and quantize == export_job.AUTO else [(option, quantize)]
        for option, quantization in (*named, *(("--layers", value) for value in layers.values())):
            try:
                device_form.form(device, quantizing.quantization(quantization))
            except errors.ConfigError as error:
                yield option + str(error).removeprefix("quantize")
    sized = args.size_mb is not None
    for option, value in (
        ("--max-drop", None if sized else args.max_drop),
        ("--prefer", args.prefer),
    ):
        if value is not None and not automatic:
            also = " or --size-mb" if option == "--max-drop" else ""
            yield errors.explain(option, f"--quantize auto{also}", f"--quantize {args.quantize}")
    if sized and not args.size_mb > 0:
        yield errors.explain("--size-mb", "a size above 0 MB", args.size_mb)
    if args.max_drop is not None and not 0 <= args.max_drop <= 1:
        yield errors.explain("--max-drop", "a drop from 0 to 1", args.max_drop)
    if args.vocab_prune is not None and options.section_of(args, vocabulary_options.PLACE):
        remedy = "--languages-of FILE keeps the words of a text and those of the task."
        yield errors.explain("--vocab-prune", "no other option of the vocabulary", "both", remedy)
    excluded = {
        "--quantize auto": automatic,
        "--layers": bool(layers),
        "--vocab-prune": args.vocab_prune is not None,
        "--languages": args.languages is not None,
        "--languages-of": args.languages_of is not None,
        "--vocab-size": args.vocab_size is not None,
        "--for": list(args.devices.items()) != [("cpu", None)],
    }
    for option in (option for option, chosen in excluded.items() if sized and chosen):
        remedy = "It chooses formats and words itself, for the CPU."
        yield errors.explain("--size-mb", f"no {option}", "both", remedy)
    if automatic and layers:
        yield errors.explain(
            "--layers", "a quantization by name", "--quantize auto", "auto chooses the layers."
        )
    if not export_job.calibrated(args, layers):
        for option, value in (("--calibrate", args.calibrate), ("--seed", args.seed)):
            if value is not None:
                yield errors.explain(
                    option, "a static quantization or auto", f"--quantize {args.quantize}"
                )
    elif args.calibrate is not None and args.calibrate < 1:
        yield errors.explain("--calibrate", "at least 1 example", args.calibrate)
    yield from options.without_task(args, *export_list.WITHOUT_TASK)


COMMANDS = (
    base.Command(
        name="export",
        summary="export a trained model to a checked TFLite file and other formats",
        description="Writes a TFLite file with a signature for each length, checked against the "
        "model: on the development set of its run, or on rows of --data. Beyond the bounds of its "
        "quantization nothing is written. A file that was checked for the same request is used "
        "again. "
        "With --list it writes and compares the files of all quantizations; the same command "
        "continues such a list that was stopped.",
        arguments=_arguments,
        execute=_execute,
        usual=(
            "--data --android --out --overwrite --quantize --size-mb --for --task --data-dir --list"
        ),
        examples=(
            "export ./my-bert --data my.csv --android app/src/main/assets",
            "export runs/demo --for cpu,gpu:float32 --out runs/demo-phones",
        ),
    ),
)
