"""The optional compiled kernel; everything else is in pyproject.toml."""

import os

from setuptools import Extension, setup

KERNEL = Extension(
    "dovetail.core.scheduling.fleet._kernel",
    ["src/dovetail/core/scheduling/fleet/_kernel.c"],
    # Without debug information, which contains the path of the build.
    extra_compile_args=["-O3", "-ffp-contract=off", "-g0"],
    py_limited_api=True,
    optional=True,
)

# DOVETAIL_KERNEL=0 builds a wheel for platforms without one of their own.
if os.environ.get("DOVETAIL_KERNEL", "1") == "0":
    setup()
else:
    setup(ext_modules=[KERNEL], options={"bdist_wheel": {"py_limited_api": "cp311"}})
