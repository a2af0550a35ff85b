"""The conventions about shapes that all layers share: columns are the batch, a vector is a batch of one."""

from typing import Any


def as_columns(x: Any) -> Any:
    """A vector as a matrix of one column; a matrix as it is."""
    return x.reshape(-1, 1) if x.ndim == 1 else x


def check_batch(state: Any, x: Any) -> None:
    """Refuse a state of another batch than the input's, unless it is the one column that all of a batch can start from.

    NumPy itself would also broadcast an input of one column over the state's batch, and nobody would notice.
    """
    if state.shape[1] not in (1, x.shape[1]):
        raise ValueError(
            f"the state of shape {state.shape} is for a batch of {state.shape[1]}, "
            f"the input of shape {x.shape} is a batch of {x.shape[1]}"
        )
