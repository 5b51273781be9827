"""The wheel works in an environment of its own, outside the checkout: what is installed is all that it needs."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

import stream_tgat

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "stream_tgat", "research", "topologies")
Run = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as building writes beside the sources."""
    sources, built = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("dist")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, sources)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(built)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", build], cwd=sources, check=True, capture_output=True)
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs its Python outside the checkout. What the wheel depends on is that of this environment, this package not."""
    home, elsewhere = tmp_path_factory.mktemp("fresh"), tmp_path_factory.mktemp("elsewhere")
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(packages)  # what installing does to a wheel that has no scripts and no data
    # Folders that a .pth file names are only searched; .pth files in them, such as that of this checkout, are not read.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")

    def python(*arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [home / "bin" / "python", *arguments],
            cwd=elsewhere,
            env={**os.environ, **environment},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return python


def test_wheel_has_the_package_its_topologies_and_no_research(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"stream_tgat", f"stream_tgat-{stream_tgat.__version__}.dist-info"}
    assert {"stream_tgat/py.typed", "stream_tgat/topologies/template.toml"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    modules = {str(file.relative_to(ROOT)) for file in (ROOT / "stream_tgat").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules


def test_wheel_says_the_version_of_the_package_and_what_it_needs(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (found,) = (each for each in distributions(path=[str(tmp_path)]) if isinstance(each, Distribution))
    assert found.version == stream_tgat.__version__
    assert found.metadata["License-Expression"] == "MIT"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert set(found.metadata.get_all("Provides-Extra") or []) == set(project["optional-dependencies"])


def test_installed_package_is_the_one_that_runs_and_imports_whole(run: Run) -> None:
    code = """
import importlib, pkgutil, sys, stream_tgat
for module in pkgutil.walk_packages(stream_tgat.__path__, "stream_tgat."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(stream_tgat.__file__.startswith(sys.prefix), importlib.util.find_spec("research"))
"""
    assert run("-c", code).strip() == "True None"


def test_installed_command_finds_its_topologies_and_checks_a_file(run: Run, tmp_path: Path) -> None:
    name = "from stream_tgat.topology import load_topology; print(load_topology('groceries').name)"
    assert run("-c", name).strip() == "groceries"
    topology, events = tmp_path / "shop.toml", tmp_path / "events.jsonl"
    topology.write_text('name = "shop"\n')
    events.write_text('{"user": "ann", "item": "kettle", "timestamp": 1714550400.0}\n')
    told = run("-m", "faust", "-A", "stream_tgat", "replay", str(events), "--check", STREAM_TGAT_TOPOLOGY=str(topology))
    assert "events.jsonl: 1 rows, all good" in told


def test_page_of_the_query_service_is_in_the_wheel(wheel: Path) -> None:
    page = ROOT / "stream_tgat" / "query" / "page"
    with zipfile.ZipFile(wheel) as opened:
        assert {file.relative_to(ROOT).as_posix() for file in page.iterdir()} <= set(opened.namelist())
