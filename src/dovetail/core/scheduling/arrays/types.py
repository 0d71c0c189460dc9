"""Array types of the compiled problem."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_LIMIT = float(1 << 40)
"""More pods than any node takes; finite, so that sums stay finite."""
