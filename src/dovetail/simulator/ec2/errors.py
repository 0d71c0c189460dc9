"""Error codes of the EC2 API."""

from typing import Final

from dovetail.errors import DovetailError

THROTTLED: Final = "RequestLimitExceeded"
NO_CAPACITY: Final = "InsufficientInstanceCapacity"
RESERVATION_FULL: Final = "ReservationCapacityExceeded"
NO_SUCH_INSTANCE: Final = "InvalidInstanceID.NotFound"
INTERNAL: Final = "InternalError"


class Ec2Error(DovetailError):
    """An error response with EC2's error code."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
