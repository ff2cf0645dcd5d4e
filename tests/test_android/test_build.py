"""The Android demo, compiled, tested and packed without Android Studio: one build for all of these.

This side reads what the tests wrote, and looks at how things lie in the package.
"""

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zipfile

import numpy as np
import pytest
from scipy import special
from test_android import vectors

from tfdistill import _version, manifest
from tfdistill.benchmark import adb, schema
from tfdistill.benchmark.adb import device_backend
from tfdistill.io import files

DEMO = vectors.ROOT / "android_demo"
MAVEN = DEMO / "ci" / "maven"
MODULES = ("text", "runtime", "benchmark", "demo")
PAGE_BYTES = 16384
REAL = (
    "TokenizerTest.gives the ids of the golden vectors of a real vocabulary",
    "TokenizerTest.gives the ids of the golden vectors of exported models",
    "GoldenAnswersTest.texts of exported models get the labels of the outputs that the files gave",
)
REPOSITORY = vectors.ROOT / ".runtimes" / "android" / "repository"
IGNORED = shutil.ignore_patterns("target")
NAMESPACE = "{http://maven.apache.org/POM/4.0.0}"


@pytest.mark.slow
def test_all_kotlin_compiles_and_its_tests_pass(build):
    assert "BUILD SUCCESS" in build.log
    classes = {name.split(".")[0] for name in build.passed}
    written = {
        path.stem
        for path in DEMO.glob("*/src/test*/kotlin/**/*Test.kt")
        if "@Test" in path.read_text("utf-8")
    }
    assert classes == written
    assert build.skipped == (set() if os.environ.get("TFDISTILL_DATA") else set(REAL))


@pytest.mark.slow
def test_the_harness_reads_a_result_that_the_app_wrote(build):
    phone = schema.Result.model_validate_json((build.results / "benchmark.json").read_bytes())
    card = manifest.read_manifest(vectors.RESOURCES / "bundles" / "pairs-float32")
    assert (phone.kind, phone.backend, phone.format_version) == ("phone", "app", 2)
    (model,) = phone.models
    assert model.manifest == card
    assert (model.sha256, model.size_bytes) == (card.model.sha256, card.model.size_bytes)
    first, second = phone.measurements
    assert first.samples_ms == (1.25, 1.5, 0.0001)
    assert (first.sequence_length, first.threads, first.delegate) == (16, 2, "xnnpack")
    assert first.peak_rss_bytes is not None and first.left_out == "the device throttled"
    assert (second.delegate, second.repetition, second.samples_ms) == ("gpu", 1, ())
    assert phone.before.thermal_status == 1 and phone.after.thermal_status is None
    assert phone.failures[0].error == 'no such "accelerator" \U0001f600 \u2028'
    assert phone.settings["delegates"] == ["xnnpack"] and phone.settings["lengths"] == [16]
    assert not phone.summary


@pytest.mark.slow
def test_what_a_device_farm_collects_is_adopted_and_completed(build):
    folder = vectors.RESOURCES / "bundles" / "pairs-float32"
    content = json.loads((build.results / "farm.json").read_bytes())
    for row in content["texts"]:  # the clock of the test stands still while it tokenizes
        row["tokenizer_ms"] = [0.1] * len(row["tokenizer_ms"])
    path = build.results / "farm-0.json"
    files.atomic_write_json(path, content)
    (adopted,) = adb.adopt([path], [folder])
    cases = {(length, threads) for length in (16, 24) for threads in (1, 2)}
    assert len(adopted.measurements) == 8 and len(adopted.texts) == 16
    assert {row.words for row in adopted.texts} == {None, 16, 80, 256}
    assert {(row.sequence_length, row.threads) for row in adopted.summary} == cases
    # Every inference took 1.5 ms of the test's own clock.
    rows = (*adopted.summary, *adopted.end_to_end)
    assert {row.p50_ms for row in rows} == {1.5}
    # The runtime of the test replays the golden outputs.
    answers = {(row.sequence_length, row.threads, row.max_abs_error) for row in adopted.answers}
    assert answers == {(*case, 0.0) for case in cases}
    assert adopted.failures == ()
    assert adopted.runtime.packages == {"litert": "9.9"}
    assert adopted.device.os == "Android 15 (API 35)"
    assert adopted.settings["adopted"] == "device farm" and adopted.settings["seed"] == 3


@pytest.mark.slow
@pytest.mark.shared_data
def test_the_app_answers_sentences_of_sst2_as_the_student_does_here(build):
    assert set(REAL) <= build.passed
    (folder,) = (path.parent for path in build.bundles.glob("bundles/*/model.json"))
    card = manifest.read_manifest(folder)
    examples = json.loads((folder / "golden.json").read_bytes())["examples"]
    whole = [example for example in examples if example["text"] is not None]
    lines = (build.results / "answers.jsonl").read_bytes().splitlines()
    said = [json.loads(line) for line in lines]
    assert [row["text"] for row in said] == [example["text"] for example in whole]
    assert len(said) > 20 and card.tokenizer.vocab_size == 30522
    for row, example in zip(said, whole, strict=True):
        outputs = np.array(example["outputs"], np.float32).astype(np.float64)
        calibrated = special.softmax(outputs / card.confidence.temperature)
        expected = dict(zip(card.task.labels, calibrated, strict=True))
        # Python's exp and Java's may differ in the last digit.
        assert row["probabilities"] == pytest.approx(expected, rel=1e-14)
        best = card.task.labels[np.argmax(outputs)]
        assert next(iter(row["probabilities"])) == best


@pytest.mark.slow
def test_the_parsers_look_for_what_the_framework_prints(build):
    def missing(jar, headings):
        return [
            (name, heading)
            for name, lines in headings.items()
            for heading in lines
            if heading.encode() not in jar.read(name.replace(".", "/") + ".class")
        ]

    frameworks = vectors.ROOT / ".runtimes" / "android" / "frameworks"
    (newest,) = frameworks.glob("android-all-instrumented-15-*.jar")
    with zipfile.ZipFile(newest) as jar:
        assert missing(jar, device_backend.HEADINGS) == []
    (oldest,) = frameworks.glob("android-all-instrumented-8.0.0_*.jar")
    thermal = {"com.android.server.power.ThermalManagerService", "android.os.Temperature"}
    with zipfile.ZipFile(oldest) as jar:  # thermal services begin with Android 10
        headings = {k: lines for k, lines in device_backend.HEADINGS.items() if k not in thermal}
        assert missing(jar, headings) == []


@pytest.mark.slow
def test_the_parsers_read_what_the_framework_printed(build):
    def dump(name):
        return (build.results / f"{name}.txt").read_text()

    assert device_backend.read_thermal(dump("thermal-no-hal")) == (
        None,
        {"SKIN": 41.5},
        "`HAL Ready: false`",
    )
    real = dump("thermal-no-hal").replace("HAL Ready: false", "HAL Ready: true")
    assert device_backend.read_thermal(real) == (2, {"SKIN": 41.5}, "")
    overridden = dump("thermal-overridden").replace("HAL Ready: false", "HAL Ready: true")
    assert device_backend.read_thermal(overridden).unknown == "`IsStatusOverride: true`"


def test_app_and_harness_know_the_same_emulators():
    kotlin = (
        DEMO / "benchmark/src/main/kotlin/io/github/tfdistill/benchmark/DeviceInfo.kt"
    ).read_text("utf-8")
    rows = re.findall(r'"(ro\.[\w.]+)"\s+to\s+listOf\(([^)]*)\)', kotlin)
    signs = {name: tuple(re.findall(r'"(.*?)"', values)) for name, values in rows}
    assert signs == device_backend.EMULATOR_SIGNS


def test_both_builds_take_the_same_versions():
    versions = (DEMO / "gradle" / "libs.versions.toml").read_text().split("[libraries]")[0]
    catalog = dict(re.findall(r'^(\S+) = "(.+?)"', versions, re.M))
    properties = ElementTree.parse(MAVEN / "pom.xml").getroot().find(f"{NAMESPACE}properties")
    pom = {item.tag.removeprefix(NAMESPACE): item.text for item in properties}
    shared = ("kotlin", "kotlinx-serialization", "junit", "robolectric", "tensorflow-lite")
    assert {name: catalog[name] for name in shared} == {
        name: pom[f"{name}.version"] for name in shared
    }


def test_the_library_has_the_version_of_tfdistill_wherever_it_is_named():
    catalog = (DEMO / "gradle" / "libs.versions.toml").read_text()
    consumer = ElementTree.parse(MAVEN / "consumer" / "pom.xml").getroot()
    libraries = {
        item.findtext(f"{NAMESPACE}artifactId"): item.findtext(f"{NAMESPACE}version")
        for item in consumer.iter(f"{NAMESPACE}dependency")
        if item.findtext(f"{NAMESPACE}groupId") == "io.github.tfdistill"
    }
    parent = ElementTree.parse(MAVEN / "pom.xml").getroot()
    assert libraries == dict.fromkeys(("text", "runtime"), _version.__version__)
    assert re.findall(r'^library = "(.+?)"', catalog, re.M) == [_version.__version__]
    assert (
        parent.findtext(f"{NAMESPACE}properties/{NAMESPACE}library.version") == _version.__version__
    )


@pytest.fixture(scope="module")
def installed(build):
    """The libraries as another project finds them in the repository."""
    assert build.passed
    return REPOSITORY / "io" / "github" / "tfdistill"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "brought"),
    [
        ("text", {"kotlin-stdlib", "kotlinx-serialization-json-jvm"}),
        ("runtime", {"text", "tensorflow-lite", "tensorflow-lite-api"}),
    ],
)
def test_the_installed_libraries_stand_alone(installed, library, brought):
    folder = installed / library / _version.__version__
    pom = ElementTree.parse(next(folder.glob("*.pom"))).getroot()
    assert pom.find(f"{NAMESPACE}parent") is None
    needed = {
        item.findtext(f"{NAMESPACE}artifactId"): item.findtext(f"{NAMESPACE}version")
        for item in pom.iter(f"{NAMESPACE}dependency")
        if item.findtext(f"{NAMESPACE}scope") != "provided"
    }
    assert set(needed) == brought
    assert all(re.fullmatch(r"[\d.]+", version) for version in needed.values())
    with zipfile.ZipFile(next(folder.glob("*-sources.jar"))) as sources:
        held = {name.rpartition("/")[2] for name in sources.namelist() if name.endswith(".kt")}
    assert held == {path.name for path in (DEMO / library / "src" / "main").rglob("*.kt")}


def page_as_kotlin():
    """The Kotlin of the guides: each block a function of an app that has a context."""
    docs = vectors.ROOT / "docs"
    names = ("guides/own-app.md", "guides/android.md", "guides/faq.md", "tutorials/router.md")
    pages = "".join((docs / name).read_text("utf-8") for name in names)
    blocks = re.findall(r"^```kotlin\n(.*?)^```$", pages, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    imports = sorted({line for line in lines if line.startswith("import ")})
    bodies = [
        "\n".join(line for line in block.splitlines() if not line.startswith("import "))
        for block in blocks
    ]
    functions = (
        f"fun block{number}(context: android.content.Context) {{\n{body}\n}}"
        for number, body in enumerate(bodies)
    )
    return len(blocks), "\n".join((*imports, *functions)) + "\n"


@pytest.mark.slow
def test_a_foreign_program_has_the_golden_answers_and_compiles_the_guides(installed, tmp_path):
    name = "pairs-float32"
    assert installed.is_dir()
    project = shutil.copytree(MAVEN / "consumer", tmp_path / "consumer", ignore=IGNORED)
    count, page = page_as_kotlin()
    assert count == 8
    (project / "src" / "main" / "kotlin" / "Page.kt").write_text(page, "utf-8")
    options = ["--batch-mode", "--offline", f"-Dmaven.repo.local={REPOSITORY}"]
    done = subprocess.run(
        ["mvn", *options, "--file", project / "pom.xml", "process-classes"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    classes = f"{project}/target/classes{os.pathsep}{project}/target/libraries/*"
    said = tool("java", "-cp", classes, "MainKt", str(vectors.RESOURCES), name).splitlines()
    folder = vectors.RESOURCES / "bundles" / name
    labels = manifest.read_manifest(folder).task.labels
    examples = json.loads((folder / "golden.json").read_bytes())["examples"]
    whole = [example for example in examples if example["text"] is not None]
    assert len(said) == len(whole) > 4
    for line, example in zip(said, whole, strict=True):
        ids, best = re.match(r"(\[.*?\]) Labels\(labels=\[Scored\(label=(\w+)", line).groups()
        assert json.loads(ids) == example["input_ids"]
        assert best == labels[np.argmax(example["outputs"])]


def test_both_builds_shrink_a_package_by_the_same_rules():
    """`scripts/android apk --shrunk` runs R8 with them; Gradle's build cannot run here."""
    script = (DEMO / "demo" / "build.gradle.kts").read_text()
    measured = re.search(r'create\("benchmark"\) \{(.*?)\n        \}', script, re.S).group(1)
    assert 'getDefaultProguardFile("proguard-android-optimize.txt")' in measured
    assert '"proguard-rules.pro"' in measured
    maker = (vectors.ROOT / "scripts" / "apk" / "__main__.py").read_text()
    assert 'program = "R8"' in maker and '"proguard-rules.pro"' in maker
    (split,) = re.findall(r"include\((.*)\)", script)
    (packed,) = re.findall(r"^ABIS = \((.*)\)", maker, re.M)
    assert split == packed


JAVA = ("jvmTarget = JvmTarget.JVM_17", "sourceCompatibility = JavaVersion.VERSION_17")
SAID = {
    **{f"{module}/build.gradle.kts": JAVA for module in MODULES},
    "demo/build.gradle.kts": (
        *JAVA,
        *("compileSdk = 35\n", "targetSdk = 35\n", "minSdk = 26\n"),
        # What a farm's test calls has to be there, and its package to be one.
        'isMinifyEnabled = tested != "benchmark"',
        'isShrinkResources = tested != "benchmark"',
        'isEnable = tested != "benchmark"',
        'noCompress += listOf("tflite", "int8")',
    ),
    "ci/maven/pom.xml": (
        "<android-all.version>15-robolectric-",  # Android 15 is API 35
        "<android-all-oldest.version>8.0.0_",  # Android 8.0 is API 26
    ),
    "ci/maven/demo/pom.xml": (
        "minSdkVersion=&quot;26&quot;",
        "targetSdkVersion=&quot;35&quot;",
    ),
    "gradle.properties": ("android.useAndroidX=true\n",),  # Robolectric's libraries are AndroidX's
}


@pytest.mark.parametrize("file", SAID)
def test_both_builds_are_for_the_same_android_and_any_java_of_android_studio(file):
    text = (DEMO / file).read_text()
    assert [line for line in SAID[file] if line not in text] == []
    assert "jvmToolchain" not in text  # it refuses each other one, such as Android Studio's 21


IMPORTED = {  # what sources import, and the line of a module's build.gradle.kts that brings it
    "kotlinx.serialization": ("api(libs.kotlinx.serialization.json)",),
    "org.jetbrains.kotlin.abi": ("testImplementation(libs.abi.tools)",),
    "androidx.test": ("androidTestImplementation(libs.androidx.test.runner)",),
    "org.tensorflow.lite": ("implementation(libs.tensorflow.lite)", "implementation(libs.litert)"),
    "com.google.ai.edge.litert": ("implementation(libs.litert)",),
    "org.junit": ("testImplementation(libs.junit)",),
    "org.robolectric": ("testImplementation(libs.robolectric)",),
    "io.github.tfdistill.runtime": ('implementation(project(":runtime"))',),
    "io.github.tfdistill.benchmark": ('implementation(project(":benchmark"))',),
    "io.github.tfdistill.text": ('api(project(":text"))',),
}
OF_THE_SDK = ("android", "java", "kotlin", "com.sun.net.httpserver")


@pytest.mark.parametrize("module", MODULES)
def test_gradle_gives_each_module_what_its_sources_import(module):
    """Maven hands everything on; Gradle what a module declares, and what another calls its api."""

    def declared(name):
        lines = (DEMO / name / "build.gradle.kts").read_text()
        others = re.findall(r'\(project\(":(\w+)"\)\)', lines)
        return lines + "".join(
            line for other in others for line in declared(other).splitlines(True) if " api(" in line
        )

    brings = declared(module)
    for path in (DEMO / module / "src").rglob("*.kt"):
        for name in re.findall(r"^import ([\w.]+)", path.read_text("utf-8"), re.M):
            prefixes = (*OF_THE_SDK, f"io.github.tfdistill.{module}")
            if name.startswith(tuple(f"{prefix}." for prefix in prefixes)):
                continue
            (ways,) = {ways for root, ways in IMPORTED.items() if name.startswith(f"{root}.")}
            assert any(way in brings for way in ways), f"{path.name} imports {name}"


def sentences(language):
    """The strings of a language by name, and its lists."""
    folder = DEMO / "demo" / "src" / "main" / "res" / f"values{language}"
    root = ElementTree.parse(folder / "strings.xml").getroot()
    return {
        item.get("name"): [part.text or "" for part in item] or [item.text or ""] for item in root
    }


def test_english_and_chinese_say_the_same_with_the_same_values():
    english, chinese = sentences(""), sentences("-zh")
    assert english.keys() == chinese.keys() and len(english) > 60

    def values(texts):
        return sorted(re.findall(r"%\d\$[.\d]*[a-z]", "".join(texts)))

    for name, texts in english.items():
        assert values(texts) == values(chinese[name]), name
        assert len(texts) == len(chinese[name]) and all(chinese[name]), name
    sources = "".join(
        path.read_text("utf-8")
        for path in (DEMO / "demo" / "src" / "main").rglob("*")
        if path.suffix in (".kt", ".xml") and path.name != "strings.xml"
    )
    unused = {
        name
        for name in english
        if not re.search(rf"(@string/|R\.string\.|R\.array\.){name}\b", sources)
    }
    assert not unused


SCREENS = ("answer", "question", "compare", "search", "benchmark", "device", "fault", "gpu")
VARIANTS = (("", 720, 2480), ("-night", 720, 2480), ("-land", 1520, 720))


@pytest.mark.slow
def test_pictures_of_all_screens_are_drawn(build):
    for name in SCREENS:
        for variant, widest, highest in VARIANTS:
            picture = (build.results / f"android-{name}{variant}.png").read_bytes()
            width, height = struct.unpack(">II", picture[16:24])
            assert width == widest and 300 < height <= highest


def test_the_pictures_of_the_documentation_are_small():
    pictures = list((vectors.ROOT / "docs" / "pictures").glob("android-*.png"))
    assert len(pictures) >= 4
    assert all(path.stat().st_size < 200_000 for path in pictures)


def test_the_library_text_imports_nothing_of_android_and_litert_is_declared_for_maven_alone():
    files = list((DEMO / "text" / "src" / "main").rglob("*.kt"))
    assert len(files) > 10
    foreign = r"^import (?:android|androidx|org\.tensorflow)\b"
    assert not [file for file in files if re.search(foreign, file.read_text(), re.M)]
    declared = {path.name for path in (MAVEN / "aars" / "src").rglob("*.kt")}
    assert declared == {"LiteRt.kt", "StandIn.kt"}
    sources = list((DEMO / "demo" / "src").rglob("*.kt"))
    assert len(sources) > 20
    assert not [p for p in sources if "package com.google" in p.read_text("utf-8")]
    scripts = DEMO.rglob("*.kts")
    assert not [p for p in scripts if re.search("aars|testDeclarations", p.read_text("utf-8"))]


def test_the_manifest_names_the_drivers_of_gpus_and_needs_none():
    text = (DEMO / "demo" / "src" / "main" / "AndroidManifest.xml").read_text("utf-8")
    android = "{http://schemas.android.com/apk/res/android}"
    (application,) = ElementTree.fromstring(text).iter("application")
    drivers = {
        driver.get(f"{android}name"): driver.get(f"{android}required")
        for driver in application.findall("uses-native-library")
    }
    names = ("libOpenCL.so", "libOpenCL-car.so", "libOpenCL-pixel.so")
    assert drivers == dict.fromkeys(names, "false")


@pytest.fixture(scope="module")
def package(build, tmp_path_factory):
    """A package with the toy models."""
    assert build.passed
    path = tmp_path_factory.mktemp("apk") / "app.apk"
    script = vectors.ROOT / "scripts" / "android"
    done = subprocess.run(
        [script, "apk", "--assets", vectors.RESOURCES, "--out", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def archive(package):
    with zipfile.ZipFile(package) as opened:
        yield opened


def place_of(archive, entry):
    """The first byte of an entry's content."""
    archive.fp.seek(entry.header_offset + 26)
    name, extra = struct.unpack("<HH", archive.fp.read(4))
    return entry.header_offset + 30 + name + extra


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_models_libraries_and_resources_can_be_mapped(archive):
    kinds = (".tflite", ".int8", ".so", ".arsc")
    mapped = [e for e in archive.infolist() if e.filename.endswith(kinds)]
    assert len(mapped) == 4 + 1 + 2 + 1
    for entry in mapped:
        assert entry.compress_type == zipfile.ZIP_STORED
        multiple = PAGE_BYTES if entry.filename.endswith(".so") else 4
        assert place_of(archive, entry) % multiple == 0, entry.filename
    assert {e.filename.split("/")[1] for e in mapped if e.filename.startswith("lib/")} == {
        "arm64-v8a",
        "x86_64",
    }


@pytest.mark.slow
def test_bundles_are_the_ones_of_their_index(archive):
    def content(name):
        return archive.read(f"assets/bundles/{name}")

    index = json.loads(content("index.json"))
    for name, entry in index["bundles"].items():
        card = json.loads(content(f"{name}/model.json"))
        for record in (entry["manifest"], entry["tokens"], card["model"], card["golden_file"]):
            digest = hashlib.sha256(content(f"{name}/{record['file']}")).hexdigest()
            assert digest == record["sha256"]
    assert len(index["bundles"]) == 4


CLASSES = """
io/github/tfdistill/demo/MainActivity io/github/tfdistill/demo/CompareActivity
io/github/tfdistill/demo/MeasureActivity io/github/tfdistill/demo/DistributionView
io/github/tfdistill/demo/AcceleratorRunner io/github/tfdistill/runtime/InterpreterRunner
io/github/tfdistill/benchmark/BundleBenchmark io/github/tfdistill/text/Tokenizer
org/tensorflow/lite/NativeInterpreterWrapper com/google/ai/edge/litert/CompiledModel
""".split()


@pytest.mark.slow
def test_all_classes_are_in_the_dex(archive):
    dex = archive.read("classes.dex")
    assert dex.startswith(b"dex\n03")
    assert [name for name in CLASSES if f"L{name};".encode() not in dex] == []
    # Declarations alone, which say so: the library is not to be had here.
    assert b"This package was built without LiteRT 2" in dex
    of_tests = (b"Landroidx/test", b"Lorg/junit", b"FarmBenchmark")
    assert [name for name in of_tests if name in dex] == []


@pytest.mark.slow
def test_the_manifest_says_what_the_gradle_build_says(package):
    script = (DEMO / "demo" / "build.gradle.kts").read_text()
    keys = "applicationId|minSdk|targetSdk|versionCode|versionName"
    said = {key: value.strip('"') for key, value in re.findall(rf"({keys}) = (\S+)", script)}
    badging = tool("aapt", "dump", "badging", str(package))
    name = said["applicationId"]
    for line in (
        f"package: name='{name}' versionCode='{said['versionCode']}'",
        f"versionName='{said['versionName']}'",
        f"sdkVersion:'{said['minSdk']}'",
        f"targetSdkVersion:'{said['targetSdk']}'",
        f"launchable-activity: name='{name}.MainActivity'",
    ):
        assert line in badging
    assert "uses-permission" not in badging  # it asks for nothing
    assert re.search(r"locales: .*'zh'", badging)


@pytest.mark.slow
def test_other_apps_start_the_first_screen_alone_and_read_only_what_was_shared(package):
    tree = tool("aapt2", "dump", "xmltree", str(package), "--file", "AndroidManifest.xml")
    activities = tree.split("E: activity")[1:]
    exported = r"exported\(.*?\)=(true|.*0xffffffff)"
    (first,) = (part for part in activities if re.search(exported, part))
    assert re.search(r'name\(.*?\)="\.?(?:[\w.]+\.)?MainActivity"', first)
    assert "android:permission(" not in tree and len(activities) == 5
    (provider,) = tree.split("E: provider")[1:]
    provider = provider.split("E: ")[0]
    for pattern in (
        r'authorities\(.*?\)="io\.github\.tfdistill\.demo\.results"',
        r"exported\(.*?\)=(false|.*0x0\b)",
        r"grantUriPermissions\(.*?\)=(true|.*0xffffffff)",
    ):
        assert re.search(pattern, provider)
