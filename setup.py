"""Builds the package with the topologies in it, so that an installation has what its messages speak of."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithTopologies(build_py):
    """Copies topologies/ into the package that is built; the repository keeps them where people look."""

    def run(self) -> None:
        """Build, then copy."""
        super().run()
        if not self.editable_mode:
            into = Path(self.build_lib) / "stream_tgat" / "topologies"
            into.mkdir(parents=True, exist_ok=True)
            for file in sorted(Path("topologies").glob("*.toml")):
                shutil.copy2(file, into)


setup(cmdclass={"build_py": BuildWithTopologies})
