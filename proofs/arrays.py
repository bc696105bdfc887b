"""numpy, imported when one of its names is first used.

`list`, `explain`, `replay` and `witness` read only models and traces. They work without numpy,
which an extra installs. Write `from proofs import arrays as np`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
    from numpy.typing import NDArray
else:

    def __getattr__(name: str) -> Any:
        """Return numpy's object of this name, and keep it for the next use. Raises
        ModuleNotFoundError."""
        import numpy

        found = globals()[name] = getattr(numpy, name)
        return found


Array: TypeAlias = "NDArray[Any]"
"""An array of numbers."""
