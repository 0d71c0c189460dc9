"""Diagnosis of an installation: gather facts once, then run pure checks.

Each check has a stable code, the facts it needs, and a fix for every finding.
"""

from dovetail.doctor.check import Check
from dovetail.doctor.finding import Finding
from dovetail.doctor.run import run_checks

__all__ = ["Check", "Finding", "run_checks"]
