"""Every difference between PyTorch and mutangent on the samples of `calls`, with its reason.

A difference that is not in this table fails, and so does a row whose number of samples is no longer right.
"""

import attrs


@attrs.frozen
class Difference:
    """How many samples of an entry differ, over all variants, and why that is no error of mutangent's."""

    samples: int
    reason: str


DIFFERENCES: dict[str, Difference] = {
    # A choice among subgradients
    "linalg.norm.subgradients_at_zero": Difference(
        24,
        "At a zero matrix the norms 2, -2 and 'nuc' have 0 here, the smallest of the subgradients; PyTorch has the product "
        "of the singular vectors that it happens to find for it.",
    ),
    # What NumPy means, or leaves out
    "cholesky_solve": Difference(12, "SciPy refuses empty batches."),
    "einsum": Difference(4, "NumPy refuses an ellipsis that the result leaves out; PyTorch sums over it."),
    "linalg.lstsq.grad_oriented": Difference(
        100,
        "NumPy solves one system, PyTorch a batch of them; its driver 'gelsy' (4 samples) gives no residuals.",
    ),
    "linalg.solve_triangular": Difference(184, "SciPy refuses empty batches."),
    "logaddexp": Difference(9, "NumPy's is for real numbers, PyTorch's for complex ones too."),
    "logcumsumexp": Difference(4, "As for logaddexp."),
    "nn.functional.pad.replicate_negative": Difference(
        12, "PyTorch repeats an edge that negative widths cut away; NumPy cannot extend an empty axis."
    ),
    "tensordot": Difference(
        4, "NumPy wants the axes that it sums over to be equally long; PyTorch broadcasts."
    ),
    # What PyTorch refuses
    "view_as_complex": Difference(1, "A view needs neighbours in memory, and the strided sample has none."),
}

# Entries of which some samples have no rule yet. Nothing is silent there, as the call raises `NoRuleError`; a name leaves
# this set when the rule comes.
NO_RULE = frozenset(
    {
        "nanquantile",  # with respect to q
        "quantile",  # with respect to q, for other methods than 'linear'
    }
)
