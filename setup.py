"""What pyproject.toml cannot say: the wheel holds clients/js, which `aline export --web` copies."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CLIENT = Path("clients") / "js"


class WithClient(build_py):
    """Builds the package, and puts the JavaScript into it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            left_out = shutil.ignore_patterns("node_modules", "example")
            place = Path(self.build_lib) / "aline" / CLIENT
            shutil.copytree(CLIENT, place, ignore=left_out, dirs_exist_ok=True)


setup(cmdclass={"build_py": WithClient})
