"""The optional compiled kernel; everything else is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "dovetail.core.scheduling.fleet._kernel",
            ["src/dovetail/core/scheduling/fleet/_kernel.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
