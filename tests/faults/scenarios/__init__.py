"""What can go wrong, by where it goes wrong. Each function plays one scenario and ends by comparing."""

from tests.faults.scenarios import brokers, disks, inputs, releases, workers
from tests.faults.scenarios.register import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Scenario", "brokers", "disks", "inputs", "releases", "workers"]
