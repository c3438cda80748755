"""scikit-learn's own checks."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

import lorank as lr

PAIRS = "takes index pairs: two columns of whole numbers from 0 on, and the check's data are not"
NAMES = """
    all_zero_sample_weights_error
    dict_unchanged
    dont_overwrite_parameters
    dtype_object
    estimators_dtypes
    estimators_fit_returns_self
    estimators_nan_inf
    estimators_overwrite_params
    estimators_partial_fit_n_features
    estimators_pickle
    f_contiguous_array_estimator
    fit2d_1feature
    fit2d_1sample
    fit2d_predict1d
    fit_check_is_fitted
    fit_idempotent
    fit_score_takes_y
    methods_sample_order_invariance
    methods_subset_invariance
    n_features_in
    n_features_in_after_fitting
    non_transformer_estimators_n_iter
    pipeline_consistency
    positive_only_tag_during_fit
    readonly_memmap_input
    regressor_data_not_an_array
    regressors_int
    regressors_no_decision_function
    regressors_train
    sample_weight_equivalence_on_dense_data
    sample_weight_equivalence_on_sparse_data
    sample_weights_list
    supervised_y_2d
"""
FAILURES = {f"check_{name}": PAIRS for name in NAMES.split()}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        lr.MatrixCompletion(rank=1, regularization="learned"),
        lr.TableImputer(),
        lr.TableImputer(time=True),
        lr.TableImputer(method="low-rank", rank=1, regularization="learned"),
    ],
    expected_failed_checks=lambda estimator: FAILURES if isinstance(estimator, lr.MatrixCompletion) else {},
)
def test_conventions(estimator, check):
    check(estimator)
