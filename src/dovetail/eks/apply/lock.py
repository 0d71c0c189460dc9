"""Lock: one writing run at a time per cluster, on one host.

EC2 has no unique names, so two runs that start in an empty account would each
create a VPC. The kernel releases the lock when the process ends, however it
ends; it never has to be removed by hand.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.eks.plan.resource import Account
from dovetail.errors import DovetailError


class ClusterLockedError(DovetailError):
    """Another process on this host is changing the same cluster."""


@contextmanager
def cluster_lock(account: Account, cluster: str, *, directory: Path) -> Iterator[None]:
    """Hold the lock of a cluster; raises ``ClusterLockedError`` without waiting.

    Runs exclude each other only if they use the same ``directory`` for the lock file.
    """
    path = directory / f"dovetail-{os.getuid()}-{account.account}-{account.region}-{cluster}.lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 20).decode(errors="replace").strip() or "unknown"
            raise ClusterLockedError(
                f"another run is changing {cluster} in {account.region} (process {holder}); "
                "wait for it, or stop it"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)
