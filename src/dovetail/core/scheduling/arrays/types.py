"""Array types of the solver.

Amounts of resources are whole numbers below 2**53 in float64 (CPU in millicores,
memory in bytes), so sums, differences and floored quotients are exact.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_LIMIT = float(1 << 40)
"""More pods than any node takes; finite, so that sums stay finite."""
