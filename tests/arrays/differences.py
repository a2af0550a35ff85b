"""Where the suite's result on CuPy's arrays is not NumPy's, and why.

Patterns are those of `fnmatch`, for the ids of tests. The docs' page on GPUs says the same for users.
"""

from fnmatch import fnmatchcase

import numpy as np

NUMPY_PROGRAMS = "NumPy programs; what they show does not depend on the array library"
NO_ARRAYS = "not about arrays"
NO_SCIPY = "SciPy has no functions of CuPy arrays"
TIME = "measures time, memory or many steps, which the emulated kernels have too much of"
KERNELS_OF_TESTS = (
    "the kernels that stand in for a device are functions of the tests, which would be looked at"
)
SAME_ROWS = "the same rules with other operands: NumPy's run covers the expressions, and CuPy refuses many of the calls"

# Left out.
NOT_RUN = {
    "tests/examples/*": NUMPY_PROGRAMS,
    "tests/oracle/*": NUMPY_PROGRAMS,
    "tests/programs/test_duals.py*": "about the reference, which computes on the host",
    "tests/programs/test_sessions.py*": NUMPY_PROGRAMS,
    "tests/programs/test_statistics.py*": "counts what is saved for NumPy's arrays",
    "tests/programs/test_programs.py*": "programs write by lists as indices and functions that CuPy has not",
    "tests/test_docs.py*": NUMPY_PROGRAMS,
    "tests/test_benchmarks.py*": NO_ARRAYS,
    "tests/test_import_time.py*": NO_ARRAYS,
    "tests/checkpoint/test_positions.py*": NO_ARRAYS,
    "tests/test_reached.py*": KERNELS_OF_TESTS,
    "tests/in_place/test_ways_to_data.py*": KERNELS_OF_TESTS,
    "tests/in_place/test_what_runs.py*": KERNELS_OF_TESTS,
    "tests/in_place/test_only_fields_hold.py*": "who shares memory on a device need not refer to the array",
    "tests/test_architecture.py*": NO_ARRAYS,
    "tests/rules/test_coverage.py*": NO_ARRAYS,
    "tests/test_collector.py*": NO_ARRAYS,
    "tests/scipy/*": NO_SCIPY,
    "tests/rules/test_special.py*": NO_SCIPY,
    "tests/rules/special_samples.py*": NO_SCIPY,
    "tests/array_api/*": "the namespace of the array API standard makes NumPy arrays",
    "tests/cases/test_converters.py*": "NumPy's conversions; those of CuPy's arrays are in tests/cupy",
    "tests/nn/test_fused.py*": "cells are fused for NumPy arrays only",
    "tests/rules/test_products.py*": "products wait for each other for NumPy arrays only",
    "tests/in_place/test_written_past.py*": "to notice that an array on a device was overwritten would be to wait for it",
    "tests/test_contents.py*": "to notice that an array on a device was overwritten would be to wait for it",
    "tests/cases/test_long_runs.py*": TIME,
    "*memory*": TIME,
    "*costs_time_in_proportion*": TIME,
    "*a_long_chain_of_objects_needs_no_recursion*": TIME,
    "*a_chain_of_a_hundred_thousand_objects*": TIME,
    "*garbage_collection_in_a_recording_changes_nothing*": TIME,
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
    "tests/rules/test_roots.py*what_a_negative_constant_cancels*": SAME_ROWS,
    "tests/rules/test_roots.py*constants_that_are_not_negative*": SAME_ROWS,
    "tests/rules/test_roots.py*a_negative_constant_does_no_harm*": SAME_ROWS,
    "tests/rules/test_roots.py*is_that_of_something_flat*": SAME_ROWS,
    "tests/in_place/test_read_past.py*zeros_like*": "the emulated zeros_like is not known by its module",
    "tests/in_place/test_attribute_reads.py*functions_of_a_module*": "the emulated NumPy is no module",
    "tests/in_place/test_read_past.py*numpy_gives_back*": "NumPy does not write into CuPy's arrays",
}

CONTAINER = "CuPy returns a list where NumPy returns a tuple, or the other way round; a recorded run gives NumPy's kind"
FROM_NUMBERS = "made from numbers alone: a recorded run gives NumPy's arrays, as NumPy's function does"
NO_WHERE = "CuPy's reductions have no where= and no initial="
NO_VECTORS = "CuPy has no vecdot and no vector_norm"
NO_COMPARISON = (
    "numbers on a device are not compared between a checkpoint's runs: that would be to wait for it"
)
NO_MOVE = "a device is not asked whether what lies under a modulus or a power moves: its root is nan in forward mode"
NO_SIGN = "numbers on a device are not asked whether they are positive: the derivative is nan"
NO_READ_ONLY = "CuPy has no read-only arrays"
NO_WAITING = "to notice that an array on a device was overwritten would be to wait for the device"
LISTS = "CuPy does not take or compare lists here"
SHAPE = "CuPy takes no arrays as shapes, axes or places to split at"
NO_ASARRAY = "CuPy refuses np.asarray of its arrays"
NOT_HIDDEN = "CuPy does not hide our error behind one of its own"
NO_USER_UFUNCS = "CuPy knows no ufuncs but its own"
NO_OBJECTS = "CuPy has no arrays of objects"
NO_SUCH_NAME = (
    "CuPy's arrays have no such method or attribute, and are no Python numbers: CuPy's or Python's own error"
)

# What fails, with the reason; what is here and passes fails the run.
DIFFERENT = {
    "*other_numbers_with_the_same_result_are_found[[]a condition]": NO_COMPARISON,
    "*other_numbers_with_the_same_result_are_found[[]an array]": NO_COMPARISON,
    "*other_numbers_with_the_same_result_are_found[[]an array in a slice]": NO_COMPARISON,
    "*other_numbers_with_the_same_result_are_found[[]a mask]": NO_COMPARISON,
    "*other_numbers_with_the_same_result_are_found[[]a single precision]": NO_COMPARISON,
    "*other_numbers_with_the_same_result_are_found[[]indices]": NO_COMPARISON,
    "*at_second_order_too[[]*-where=]": NO_WHERE,
    "*test_a_variance_hands_a_mask_on": NO_WHERE,
    "*test_roots.py*[[]vector_norm*": NO_VECTORS,
    "*test_roots.py*[[]np.vecdot*": NO_VECTORS,
    "*whose_derivative_is_0[[]a weight*": NO_SIGN,
    "*whose_derivative_is_0[[]product of more*": NO_SIGN,
    "*whose_derivative_is_0[[]weights*": NO_SIGN,
    "*whose_derivative_is_0[[]a positive factor*": NO_SIGN,
    "*whose_derivative_is_0[[]a traced divisor*": NO_SIGN,
    "*whose_derivative_is_0[[]an array of exponents*": NO_SIGN,
    "*whose_derivative_is_0[[]modulus of flat*": NO_MOVE,
    "*whose_derivative_is_0[[]power of a flat one*": NO_MOVE,
    "*finite_differences[[]gradient-[2357]]": CONTAINER,
    "*finite_differences[[]atleast_[12]d-3]": CONTAINER,
    "*finite_differences[[]meshgrid-3]": CONTAINER,
    "*finite_differences[[]broadcast_arrays-1]": FROM_NUMBERS,
    "*finite_differences[[]linspace-[13]]": FROM_NUMBERS,
    "*finite_differences[[]logspace-1]": FROM_NUMBERS,
    "*finite_differences[[]geomspace-1]": FROM_NUMBERS,
    "*finite_differences[[]average-5]": FROM_NUMBERS,
    "*finite_differences[[]cov-4]": "CuPy 14.2 centres weighted data by the mean without weights; a recorded run is right",
    "*finite_differences[[]histogram-[12]]": LISTS,
    "*finite_differences[[]bincount-1]": LISTS,
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
    "*test_a_raise_leaves_contents_untouched": "a fill that the host-memory arrays do not answer",
    "*test_writing_rows_copies_the_tangent_once*": NO_ASARRAY,
    "*test_tangents_that_are_written_in_place_reach_nobody_else*": NO_ASARRAY,
    "*test_arrays_written_in_place_move": "CuPy takes no lists as indices of np.add.at",
    "*test_the_tangent_of_another_class_is_refused": "the message names the other library",
    "*test_add_at_adds_for_every_repetition": "CuPy takes no lists as indices of np.add.at",
    "*is_written_in_every_way[[]*-where]": "CuPy's ufuncs take no where=",
    "*test_add_at_of_one_place_takes_a_number": "CuPy adds no numbers by NumPy's name",
    "*test_add_at_adds_one_after_the_other*": "CuPy takes no lists as indices of np.add.at",
    "*test_an_array_that_a_rule_passes_on_is_the_same_one_afterwards": NO_WAITING,
    "*another_thread_is_refused_*[[]cupy-host-<lambda>13]": "the emulated kernel of add.at belongs to one thread",
    "*test_a_long_array_that_the_call_only_reads_*": NO_WAITING,
    "*test_subtract_at_subtracts_for_every_repetition": "CuPy has no subtract.at",
    "*test_elements_are_read_and_written_by_flat": "CuPy's x.flat takes slices only",
    "*test_flat_is_assigned_as_a_whole": "CuPy's x.flat cannot be assigned",
    "*test_a_write_into_a_read_only_array_is_refused_as_in_the_plain_run*": NO_READ_ONLY,
    "*test_a_pullback_that_writes_into_*_is_stopped_by_numpy": NO_READ_ONLY
    + "; the check finds it by the numbers",
    "*test_a_pullback_cannot_write_into_a_cotangent_that_others_share[[]primitive]": NO_READ_ONLY
    + "; it gets a copy",
    "*test_a_pullback_cannot_write_into_a_cotangent_that_others_share[[]ufunc]": NO_USER_UFUNCS,
    "*test_a_missing_rule_is_no_error_*": NO_USER_UFUNCS,
    "*test_a_user_s_rule_for_a_ufunc_is_checked": NO_USER_UFUNCS,
    "*test_a_rule_for_a_ufunc_without_one*": NO_USER_UFUNCS,
    "*is_refused[[]ctypes of an array]": NO_SUCH_NAME,
    "*is_refused[[][gs]etfield]": NO_SUCH_NAME,
    "*is_refused[[]statistics.mean]": NO_SUCH_NAME,
    "*is_refused[[]statistics.stdev]": NO_SUCH_NAME,
    "*is_refused[[]a seed]": NO_SUCH_NAME,
    "*is_refused[[]Fraction]": NO_SUCH_NAME,
    "*is_refused[[]times a Fraction]": NO_SUCH_NAME,
    "*is_refused[[]is_integer]": NO_SUCH_NAME,
    "*is_refused[[]as_integer_ratio]": NO_SUCH_NAME,
    "*plain_run[[]rng.shuffle of numbers]": "CuPy's x[0] is a view: NumPy's shuffle loses numbers, an error here",
    "*plain_run[[]product with an object array]": NO_OBJECTS,
    "*are_not_left_out_in_silence[[]<lambda>0]": NO_OBJECTS,
    "*behind_an_error_of_numpy[[]*-set_item]": NOT_HIDDEN,
    "*behind_an_error_of_numpy[[]*-<lambda>0]": NOT_HIDDEN,
    "*test_a_closed_recording_lets_its_values_go*": NO_ASARRAY,
    "*test_a_constant_that_pause_took_from_a_computed_array*": NO_ASARRAY,
    "*as_the_plain_run_behaves[[]add_at]": "CuPy takes no lists as indices of np.add.at",
    "*test_an_optimiser_of_scipys_finds_the_parameters*": NO_SCIPY,
    "*test_the_second_recording_over_an_array_in_place_is_undone*": NO_WAITING,
    "*test_a_traced_number_is_not_written_into_an_element_of_a_plain_array": NOT_HIDDEN,
    "*test_arrays_in_place_lists_dicts_counters_and_random_numbers*": "CuPy's x[0] is a view, and NumPy's a number",
    "*test_numbers_taken_from_an_array_do_not_follow_it": "CuPy's x[0] is a view, and NumPy's a number",
}
# A class of traced values has one flag for both libraries' arrays.
if np.ndarray.__flags__ & 1 << 5:
    DIFFERENT["*plain_run[[]match of an array]"] = (
        "NumPy's arrays are sequences to `match` since 2.5, CuPy's are not"
    )


def reason_in(table: dict[str, str], test: str) -> str:
    """The reason for a test, or an empty text."""
    return next((reason for pattern, reason in table.items() if fnmatchcase(test, pattern)), "")
