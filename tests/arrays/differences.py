"""Where the suite's result on CuPy's arrays is not NumPy's, and why.

Patterns are those of `fnmatch`, for the ids of tests. The docs' page on GPUs says the same for users.
"""

from fnmatch import fnmatchcase

NUMPY_PROGRAMS = "NumPy programs; what they show does not depend on the array library"
NO_ARRAYS = "not about arrays"
NO_SCIPY = "SciPy has no functions of CuPy arrays"
TIME = "measures time, memory or many steps, which the emulated kernels have too much of"
SAME_ROWS = "the same rules with other operands: NumPy's run covers the expressions"
HOST_TEXTS = (
    "compares texts of messages, or uses what only NumPy's arrays have; gone through for NumPy only so far"
)

# Left out.
NOT_RUN = {
    "tests/examples/*": NUMPY_PROGRAMS,
    "tests/oracle/*": NUMPY_PROGRAMS,
    "tests/programs/*": NUMPY_PROGRAMS,
    "tests/test_docs.py*": NUMPY_PROGRAMS,
    "tests/in_place/test_random_programs.py*": NUMPY_PROGRAMS,
    "tests/test_benchmarks.py*": NO_ARRAYS,
    "tests/test_import_time.py*": NO_ARRAYS,
    "tests/test_architecture.py*": NO_ARRAYS,
    "tests/test_collector.py*": NO_ARRAYS,
    "tests/rules/test_coverage.py*": NO_ARRAYS,
    "tests/scipy/*": NO_SCIPY,
    "tests/rules/test_special.py*": NO_SCIPY,
    "tests/array_api/*": "the namespace of the array API standard makes NumPy arrays",
    "tests/nn/test_fused.py*": "cells are fused for NumPy arrays only",
    "tests/rules/test_products.py*": "products wait for each other for NumPy arrays only",
    "tests/in_place/test_written_past.py*": "to notice that an array on a device was overwritten would be to wait for it",
    "tests/cases/test_long_runs.py*": TIME,
    "*memory*": TIME,
    "*costs_time_in_proportion*": TIME,
    "*a_long_chain_of_objects_needs_no_recursion*": TIME,
    "*never_wrong*": TIME,
    "tests/rules/test_dtypes.py*": SAME_ROWS,
    "tests/rules/test_edges.py*": SAME_ROWS,
    "tests/rules/test_forward.py*": SAME_ROWS,
    "tests/rules/test_ufunc_methods.py*": SAME_ROWS,
    "tests/rules/test_singular_points.py*": SAME_ROWS,
    "tests/rules/test_refusals.py*": SAME_ROWS,
    "tests/rules/test_selection.py*": SAME_ROWS,
    "tests/rules/test_compositions.py*": SAME_ROWS,
    "tests/rules/test_derivatives.py::test_[!d]*": SAME_ROWS,
    "tests/errors/*": HOST_TEXTS,
    "tests/testing/*": HOST_TEXTS,
    "tests/diagnose/*": HOST_TEXTS,
    "tests/tree/*": HOST_TEXTS,
    "tests/test_*": HOST_TEXTS,
}

CONTAINER = "CuPy returns a list where NumPy returns a tuple, or the other way round; a recorded run gives NumPy's kind"
FROM_NUMBERS = "made from numbers alone: a recorded run gives NumPy's arrays, as NumPy's function does"
NO_WHERE = "CuPy's reductions have no where= and no initial="
NO_READ_ONLY = "CuPy has no read-only arrays"
NO_WAITING = "to notice that an array on a device was overwritten would be to wait for the device"
LISTS = "CuPy does not take or compare lists here"
RAMPS = "the ramps of np.pad are made of NumPy's numbers"
SHAPE = "CuPy takes no arrays as shapes, axes or places to split at"
NO_ASARRAY = "CuPy refuses np.asarray of its arrays"

# What fails, with the reason; what is here and passes fails the run.
DIFFERENT = {
    "*finite_differences[[]gradient-[2357]]": CONTAINER,
    "*finite_differences[[]atleast_[12]d-3]": CONTAINER,
    "*finite_differences[[]meshgrid-3]": CONTAINER,
    "*finite_differences[[]broadcast_arrays-1]": FROM_NUMBERS,
    "*finite_differences[[]linspace-[13]]": FROM_NUMBERS,
    "*finite_differences[[]logspace-1]": FROM_NUMBERS,
    "*finite_differences[[]geomspace-1]": FROM_NUMBERS,
    "*finite_differences[[]average-5]": FROM_NUMBERS,
    "*finite_differences[[]cov-4]": "CuPy 14.2 centres weighted data by the mean without weights; a recorded run is right",
    "*finite_differences[[]histogram-*": "CuPy has no histogram_bin_edges, which the rule asks for the edges",
    "*finite_differences[[]nanmedian-*": "CuPy has no nanquantile, which the rule asks where the ranks lie",
    "*finite_differences[[]diff-3]": LISTS,
    "*finite_differences[[]append-3]": LISTS,
    "*finite_differences[[]pad-9]": RAMPS,
    "*finite_differences[[]pad-10]": RAMPS,
    "*finite_differences[[]bincount-1]": LISTS,
    "*finite_differences[[]piecewise-[12]]": LISTS,
    "*finite_differences[[]interp-4]": LISTS,
    "*finite_differences[[]polyfit-2]": "CuPy 14.2 writes the weights into y; a recorded run leaves it as it is",
    "*again_and_again[[]sum where-*": NO_WHERE,
    "*again_and_again[[]mean where-*": NO_WHERE,
    "*again_and_again[[]interp*": LISTS,
    "*test_out_with_where": "CuPy's ufuncs have no where=",
    "*entry_values_are_put_back_into_the_same_objects": LISTS,
    "*a_masked_reset_in_the_loss_cuts_where_the_mask_says*": LISTS,
    "*a_hook_for_the_whole_class*": "isinstance(x, cupy.ndarray) is false for a traced array, or CuPy would refuse c @ x",
    "*an_exception_in_a_pullback_leaves*": FROM_NUMBERS,
    "*a_traced_value_kept_outside_objects*": NO_ASARRAY,
    "*a_plain_value_that_a_checkpointed_function_keeps*": NO_ASARRAY,
    "*test_a_converter_keeps_the_array_under_pause": NO_ASARRAY,
    "*a_recurrent_layer_is_left_as_by_the_plain_run[[]LSTM]": NO_ASARRAY,
    "*a_block_of_an_array_made_like_a_traced_one_is_written[[]<lambda>1]": FROM_NUMBERS,
    "*the_same_array_in_two_fields_is_written_through_either": "CuPy assigns no NumPy array to x[...]",
    "*a_view_stays_what_it_was_when_the_setting_that_made_it_changes[[]array-*": SHAPE,
    "*a_view_of_a_constant_stays_what_it_was_when_the_setting_that_made_it_changes*": SHAPE,
    "*a_broadcast_view_is_read_only*": NO_READ_ONLY,
    "*a_diagonal_is_read_only*": NO_READ_ONLY,
    "*a_read_only_counter_is_read_only*": NO_READ_ONLY,
    "*a_value_of_an_ended_context_cannot_be_overwritten": NO_READ_ONLY,
    "*the_entry_array_overwritten_before_the_pullback_is_an_error": NO_WAITING,
    "*test_an_array_written_past_the_recording_is_an_error": NO_WAITING,
    "*test_a_recording_within_one_follows_both_names*": NO_ASARRAY,
    "*test_a_raise_leaves_contents_untouched": "a fill that the host-memory arrays do not answer",
    "*test_the_gradient_of_a_decorated_loss_is_a_tangent*": "pytest.approx cannot read CuPy's arrays",
    "*test_writing_rows_copies_the_tangent_once*": NO_ASARRAY,
    "*test_tangents_that_are_written_in_place_reach_nobody_else*": NO_ASARRAY,
    "*test_objects_that_are_dropped_are_forgotten_and_others_are_not*": NO_ASARRAY,
    "*test_glorot_uniform_fills_its_interval": NO_ASARRAY,
    "*test_real_numbers_written_into_a_complex_array_stay_complex": FROM_NUMBERS,
    "*test_arrays_written_in_place_move": "CuPy takes no lists as indices of np.add.at",
    "*test_numbers_have_no_axes[[]2.0-shape0]": FROM_NUMBERS,
    "*test_the_tangent_of_another_class_is_refused": "the message names the other library",
    "*test_add_at_adds_for_every_repetition": "CuPy takes no lists as indices of np.add.at",
    "*test_add_at_adds_one_after_the_other*": "CuPy takes no lists as indices of np.add.at",
    "*test_subtract_at_subtracts_for_every_repetition": "CuPy has no subtract.at",
    "*test_elements_are_read_and_written_by_flat": "CuPy's x.flat takes slices only",
    "*test_flat_is_assigned_as_a_whole": "CuPy's x.flat cannot be assigned",
    "*test_numbers_taken_from_an_array_do_not_follow_it": "CuPy's x[0] is a view, and NumPy's a number",
}


def reason_in(table: dict[str, str], test: str) -> str:
    """The reason for a test, or an empty text."""
    return next((reason for pattern, reason in table.items() if fnmatchcase(test, pattern)), "")
