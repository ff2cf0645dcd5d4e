"""Packaging of tfdistill: two top-level packages, `tfdistill` and `export` (docs/adr/0002).

Everything about the distribution is said here; pyproject.toml names the build system and sets up
the tools.
"""

import pathlib
import runpy
import sys

import setuptools

ROOT = pathlib.Path(__file__).parent
VERSION = runpy.run_path(str(ROOT / "tfdistill" / "_version.py"))["__version__"]

# Upper bounds stand where the next major version is known or likely to break; each waits for that
# release and a run of the tests with it. Those that wait for others:
# - TensorFlow, tf-keras, tensorflow-text and tf-models-official are released together and only fit
#   at the same minor version: TensorFlow 2.21 waits for tf-models-official, whose newest is 2.20.
# - tensorflow-model-optimization 0.9 waits for itself: 0.8.1 is the newest, and knows tf_keras.
# - litert-quantizer (ai-edge-quantizer until 0.10) asks for one ai-edge-litert exactly, 0.11 for
#   2.3.0: another LiteRT waits for its next release. It is below 1, where minor versions may break.
# - CPython 3.14 waits for the wheels of TensorFlow and tensorflow-text.
INSTALL_REQUIRES = [
    "tensorflow~=2.20.0",
    "tf-keras~=2.20.0",
    "tensorflow-text~=2.20.0",
    "tf-models-official~=2.20.0",
    "tensorflow-model-optimization>=0.8.1,<0.9",
    "keras>=3.11,<4",
    "transformers>=4.57,<6",
    "huggingface-hub>=0.34,<3",
    "safetensors>=0.5,<1",
    "tokenizers>=0.22,<1",
    "ai-edge-litert>=2.3,<3",
    "litert-quantizer>=0.11,<0.12",
    "flatbuffers>=25,<26",
    "numpy>=2,<3",
    "scipy>=1.13,<2",
    "pyarrow>=18",
    "scikit-learn>=1.5,<2",
    "threadpoolctl>=3.1,<4",
    "pydantic>=2.7,<3",
    "typing-extensions>=4.1",  # for type checkers alone: Unpack, which Python 3.10 has not
    "pyyaml>=6,<7",
    "jinja2>=3.1,<4",
    "markupsafe>=3,<4",
    "tqdm>=4.66,<5",
    "argcomplete>=3.5,<4",
]

EXTRAS_REQUIRE = {
    # What `data prepare --runner` and `data augment --runner` run on.
    "beam": ["apache-beam>=2.77,<3"],
    # What addresses (s3://bucket/x) are read and written with; other stores need one package more.
    "remote": ["fsspec>=2025.3", "universal-pathlib>=0.3.8,<0.4", "s3fs>=2025.3"],
    # What lists the words of languages, to which a vocabulary is cut.
    "languages": ["wordfreq>=3.1,<4"],
    # What .xlsx files are read with.
    "excel": ["openpyxl>=3.1,<4"],
    # What ./scripts/test, ./scripts/check and the documentation need.
    "dev": [
        "apache-beam>=2.77,<3",
        "fsspec>=2025.3",
        "universal-pathlib>=0.3.8,<0.4",
        "s3fs>=2025.3",
        "openpyxl>=3.1,<4",
        "wordfreq>=3.1,<4",
        "faker>=40",  # what scripts/make_pii.py invents people with
        "moto[s3]>=5.1,<6",
        "flask>=3,<4",  # with flask-cors what the server of moto needs; moto[server] needs far more
        "flask-cors>=5",
        "pytest>=9,<10",
        "pytest-xdist>=3.8,<4",
        "ruff>=0.15,<1",
        "codespell>=2.4,<3",
        "pyright[nodejs]>=1.1.400,<2",
        "pre-commit>=4,<5",
        "mkdocs>=1.6,<2",
        "mkdocs-material>=9.7,<10",
        "mkdocstrings[python]>=1,<2",
    ],
}

if sys.platform == "win32":  # no fcntl, and no wheels of tensorflow-text
    sys.exit("tfdistill: expected Linux, received Windows. Use WSL (wsl --install) or a container.")

setuptools.setup(
    name="tfdistill",
    version=VERSION,
    description="Distils BERT-family teachers into small, checked and measured TFLite models.",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.10,<3.14",
    packages=setuptools.find_packages(
        include=["tfdistill", "tfdistill.*", "export", "export.*"],
    ),
    # A plain-path editable install: with an import hook instead, any folder called `export` in the
    # working directory would shadow the package.
    package_dir={"": "."},
    package_data={
        "tfdistill": [
            "py.typed",
            "data/*.yaml",
            "recipes/*.yaml",
            "report/**/*.j2",
            "results/*.j2",
            "tasks/*.yaml",
            "report/**/*.css",
        ],
        "export": ["py.typed"],
    },
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS_REQUIRE,
    entry_points={"console_scripts": ["tfdistill = tfdistill.__main__:program"]},
)
