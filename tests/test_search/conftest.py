import pytest
import simulated_device


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A search that went through: folder, device and result. Nobody writes to it."""
    folder = tmp_path_factory.mktemp("search")
    phone = simulated_device.Phone(noise=0.01)
    return folder, phone, simulated_device.run(folder, phone, size_mb=60)
