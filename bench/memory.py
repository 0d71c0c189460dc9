"""How much memory this process has needed."""

import resource
from pathlib import Path


def peak_kib() -> int:
    """Return the most memory this process had resident."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: on Linux a child starts with the peak of the parent that forked it.
        (line,) = (one for one in status.read_text().splitlines() if one.startswith("VmHWM:"))
        return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
