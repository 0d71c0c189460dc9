"""One run that writes at a time, for one cluster and on one machine.

Two runs that begin with nothing both make a VPC: EC2 has no names that would
keep the second from it. The kernel lets go of the lock when a process ends,
however it ends, so none has ever to be removed by hand.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.eks.plan.resource import Account
from dovetail.errors import DovetailError


class Busy(DovetailError):
    """Somebody else on this machine is changing the same cluster."""


@contextmanager
def one_at_a_time(account: Account, cluster: str, *, where: Path | None = None) -> Iterator[None]:
    """Hold the lock of a cluster; raises ``Busy`` at once when another process has it."""
    name = f"dovetail-{os.getuid()}-{account.account}-{account.region}-{cluster}.lock"
    path = (where or Path(tempfile.gettempdir())) / name
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 20).decode(errors="replace").strip() or "unknown"
            raise Busy(
                f"another run changes {cluster} in {account.region} just now (process {holder}); "
                "wait for it, or stop it"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)
