from tfdistill.benchmark import environment

CPUINFO = """
processor\t: 0
model name\t: Example 9000
cpu MHz\t\t: 2000.0
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512_vnni something

processor\t: 1
model name\t: Example 9000
cpu MHz\t\t: 3000.0
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512_vnni something
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\nHardware\t: Example SoC\n"


def test_cpuinfo_of_x86_and_arm_is_read():
    assert environment.parse_cpuinfo(CPUINFO) == {
        "model": "Example 9000",
        "cores_physical": 1,  # two threads of one core
        "frequency_mhz": 2500.0,
        "flags": ["avx2", "avx512_vnni"],
    }
    arm = environment.parse_cpuinfo(ARM)
    assert (arm["model"], arm["flags"]) == ("Example SoC", ["asimd", "asimddp", "i8mm"])


def test_what_cannot_be_found_out_is_none():
    unknown = environment.parse_cpuinfo("")
    assert unknown == {"model": None, "cores_physical": None, "frequency_mhz": None, "flags": []}
    assert environment.parse_os_release("ID=x\n") is None
    assert environment.parse_os_release('A=1\nPRETTY_NAME="Debian 12"\n') == "Debian 12"
    assert environment.version_of("no-such-package-anywhere") is None


def test_this_machine_is_described():
    machine = environment.describe()
    assert machine["cores_logical"] >= 1
    assert machine["memory_bytes"] > 1 << 28
    assert machine["runtime"]["ai_edge_litert"]
    assert machine["cpu_model"]
