"""List of the packages; all else is in pyproject.toml, which cannot say that this folder itself is `fabtune`."""

from setuptools import find_packages, setup

HOUSES = ("golden", "hw", "sim", "boards", "mutation", "scripts")

setup(
    packages=[
        "fabtune",
        *(f"fabtune.{name}" for house in HOUSES for name in find_packages(include=[house, f"{house}.*"])),
    ]
)
