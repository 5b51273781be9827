"""Looks up known vulnerabilities of everything that requirements.lock pins: `make audit`.

Ends with 1 where one is known. Without a network nothing can be looked up: that is said, and is no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
PATIENCE_S = 300.0


def main() -> int:
    """The command line."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        packages = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        packages = []
    looked_up = [each for each in packages if "skip_reason" not in each]
    if not looked_up:
        print("audit: the list of vulnerabilities is out of reach; nothing was looked up")
        return 0
    vulnerable = [each for each in looked_up if each["vulns"]]
    for each in vulnerable:
        for found in each["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version"
            print(f"audit: {each['name']} {each['version']}: {found['id']}, fixed in {fixed}")
    print(
        f"audit: {len(looked_up)} of {len(packages)} packages looked up, {len(vulnerable)} with known vulnerabilities"
    )
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
