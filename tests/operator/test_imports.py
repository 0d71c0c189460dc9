"""The production process loads no simulator."""

import subprocess
import sys

_PROGRAM = """
import sys
from click.testing import CliRunner
from dovetail.cli.run.command import _cloud_factory, run
from dovetail.cli.run.options import RunOptions
from dovetail.operator.instance_type_refresh import CatalogSettings

assert CliRunner().invoke(run, ["--help"]).exit_code == 0
options = dict.fromkeys(RunOptions.__struct_fields__, "") | {"cloud": "aws", "cluster_name": "c"}
_cloud_factory(RunOptions(**options), None, CatalogSettings())
print(*sorted(name for name in sys.modules if name.startswith("dovetail.simulator")))
"""


def test_run_on_aws_imports_no_simulator_module() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == ""
