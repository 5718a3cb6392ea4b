"""The part of the package that is compiled, where there is a compiler; the rest is pyproject.toml.

Without one the package is installed all the same (model/live_native.py).
"""

from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/aline/model/native")

setup(
    ext_modules=[
        Extension(
            "aline.model._native",
            sorted(map(str, FOLDER.glob("*.c"))),
            depends=sorted(map(str, FOLDER.glob("*.h"))),
            # Vectors are written out; errno would keep roots from being vectors.
            extra_compile_args=["-std=gnu11", "-O3", "-fno-math-errno"],
            optional=True,
        )
    ]
)
