"""numpy, imported when something of it is first used.

`list`, `explain`, `replay` and `witness` read models and traces alone: they work where numpy, which
an extra brings, is not installed. Write `from proofs import arrays as np`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
    from numpy.typing import NDArray
else:

    def __getattr__(name: str) -> Any:
        """What numpy calls so, kept for the next use. Raises ModuleNotFoundError."""
        import numpy

        found = globals()[name] = getattr(numpy, name)
        return found


Array: TypeAlias = "NDArray[Any]"
"""An array of numbers."""
