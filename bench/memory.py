"""Peak memory of this process."""

import resource
from pathlib import Path


def peak_kib() -> int:
    """Return the peak resident memory, in KiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: on Linux a child inherits the peak of the parent that forked it.
        (line,) = (entry for entry in status.read_text().splitlines() if entry.startswith("VmHWM:"))
        return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
