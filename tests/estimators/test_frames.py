"""Ids of the users' own, in pairs and in data frames, in and out of MatrixCompletion."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.model_selection import KFold, cross_val_score

import lorank as lr
from lorank.estimators.frames import encode_ids

OPTIONS = {"rank": 2, "regularization": "learned", "intervals": True, "ranking": True}


@pytest.fixture(scope="module")
def data():
    """Pairs, values, and names of rows and columns whose order is not that of the indices."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 30))
    pairs = np.argwhere(rng.random(X.shape) < 0.4)
    values = 3 + X[pairs[:, 0], pairs[:, 1]] + 0.3 * rng.standard_normal(len(pairs))
    users = np.array([f"u{k:02}" for k in range(50)])  # rising: the places are the indices
    return pairs, values, users, 1000 + 7 * np.arange(30)


@pytest.fixture(scope="module")
def plain(data):
    return lr.MatrixCompletion(**OPTIONS).fit(data[0], data[1])


def frames(data):
    pairs, values, users, items = data
    columns = {"rating": values, "user": users[pairs[:, 0]], "item": items[pairs[:, 1]], "weight": np.ones(len(values))}
    for package in ("pandas", "polars"):
        module = pytest.importorskip(package)
        yield module, module.DataFrame(columns)


def test_data_frames_are_fitted_as_their_index_pairs(data, plain):
    values = data[1]
    expected = plain.predict([[3, 4], [7, 9]])
    for module, frame in frames(data):
        model = lr.MatrixCompletion(**OPTIONS).fit(frame, rows="user", cols="item", values="rating", sample_weight="weight")
        np.testing.assert_allclose(model.predict([("u03", 1028), ("u07", 1063)]), expected)
        asked = module.DataFrame({"item": [1028, 1063], "when": [1, 2], "user": ["u03", "u07"]})  # found by their names
        np.testing.assert_allclose(model.predict(asked), expected)
        np.testing.assert_allclose(model.predict(asked[["user", "item"]]), expected)
        for one, other in zip(model.predict_interval(asked), plain.predict_interval([[3, 4], [7, 9]]), strict=True):
            np.testing.assert_allclose(one, other)
        in_order = lr.MatrixCompletion(**OPTIONS).fit(frame[["user", "item", "rating"]])
        np.testing.assert_allclose(in_order.predict(asked), expected)
        beside = lr.MatrixCompletion(**OPTIONS).fit(frame[["user", "item"]], values)
        np.testing.assert_allclose(beside.predict(asked), expected)
    assert plain.ids_ is None


def test_pairs_of_text_are_ids(data, plain):
    pairs, values, users, items = data
    text = np.column_stack([users[pairs[:, 0]], users[pairs[:, 1]]])
    mixed = [(str(users[i]), int(items[j])) for i, j in pairs]
    for X, ask in ((text, [("u03", "u04")]), (text.astype(object), [["u03", "u04"]]), (mixed, [("u03", 1028)])):
        model = lr.MatrixCompletion(**OPTIONS).fit(X, values)
        np.testing.assert_allclose(model.predict(ask), plain.predict([[3, 4]]))
        assert model.ids_["rows"].tolist() == users.tolist()


def test_recommendations_and_new_rows_have_ids(data, plain):
    items = data[3]
    for module, frame in frames(data):
        model = lr.MatrixCompletion(**OPTIONS).fit(frame, rows="user", cols="item", values="rating")
        cols, scores = plain.recommend([3, 8], 4, by="rating")
        found, predicted = model.recommend(["u03", "u08"], 4, by="rating")
        assert found.tolist() == items[cols].tolist()
        np.testing.assert_allclose(predicted, scores)
        table = model.recommend(["u03", "u08"], 4, by="rating", as_frame=module.__name__)
        assert isinstance(table, module.DataFrame)
        assert list(table.columns) == ["user", "item", "place", "prediction"]
        assert table["user"].to_list() == ["u03"] * 4 + ["u08"] * 4
        assert table["item"].to_list() == items[cols].ravel().tolist()
        assert table["place"].to_list() == [1, 2, 3, 4] * 2
        new = model.fold_in([1028, 1063], [4.0, 2.0])
        np.testing.assert_allclose(new.predictions, plain.fold_in([4, 9], [4.0, 2.0]).predictions)
    one, _ = model.recommend("u03", 40, by="rating")
    assert one.shape == (1, 40)
    assert (one[0] == -1).sum() == 40 - len(set(one[0]) - {-1})
    with pytest.raises(ValueError, match="as_frame must be 'pandas', 'polars'"):
        model.recommend("u03", as_frame="numpy")
    with pytest.raises(ValueError, match="unknown column 1"):
        model.fold_in([1], [4.0])


def test_ids_of_text_that_run_out_are_none(data):
    pairs, values, users, _ = data
    model = lr.MatrixCompletion(**OPTIONS).fit(np.column_stack([users[pairs[:, 1]], users[pairs[:, 0]]]), values)
    found, scores = model.recommend("u02", 60, by="rating")
    assert found[0, -1] is None
    assert (np.isnan(scores[0]) == [one is None for one in found[0]]).all()


def test_unknown_ids_get_averages_or_are_refused(data, plain):
    pairs, values, _, items = data
    _, frame = next(frames(data))
    model = lr.MatrixCompletion(**OPTIONS).fit(frame, rows="user", cols="item", values="rating")
    ask = [("u03", 1028), ("nobody", 1028), ("u03", -5), ("nobody", -5)]
    with pytest.warns(UserWarning, match="3 of 4 pairs have a row or column that was never observed"):
        found = model.predict(ask)
    with pytest.warns(UserWarning, match="never observed"):
        np.testing.assert_allclose(found, plain.predict([[3, 4], [99, 4], [3, 99], [99, 99]]))
    assert model.known(ask).tolist() == [True, False, False, False]
    with pytest.warns(UserWarning, match="1 of 2 rows is not in the data"):
        lists, _ = model.recommend(["u03", "nobody"], 3)
    taken, _ = plain.recommend([3, 99], 3)
    assert lists.tolist() == items[taken].tolist()
    assert model.similar_items(1028, 3)[0].tolist() == items[plain.similar_items(4, 3)[0]].tolist()
    assert model.explain("u03", 1028).items.tolist() == items[plain.explain(3, 4).items].tolist()
    with pytest.raises(ValueError, match="unknown row 'nobody'"):
        model.similar_users("nobody")
    model.set_params(handle_unknown="ignore")
    np.testing.assert_allclose(model.predict(ask), found)
    model.set_params(handle_unknown="error")
    with pytest.raises(ValueError, match="the first at position 1"):
        model.predict(ask)
    with pytest.raises(ValueError, match="unknown row 'nobody'"):
        model.recommend(["nobody"])
    with pytest.raises(ValueError, match="handle_unknown must be one of"):
        lr.MatrixCompletion(handle_unknown="drop").fit(pairs, values)


def test_a_file_keeps_ids(data, tmp_path):
    _, frame = next(frames(data))
    model = lr.MatrixCompletion(**OPTIONS).fit(frame, rows="user", cols="item", values="rating")
    again = lr.load(model.save(tmp_path / "m.lorank"))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.recommend("u03", 3, by="rating")[0].tolist() == model.recommend("u03", 3, by="rating")[0].tolist()
    assert again.state_.labels == {"row": "user", "col": "item", "value": "rating"}


def test_folds_of_a_data_frame(data):
    pandas = pytest.importorskip("pandas")
    pairs, values, users, items = data
    frame = pandas.DataFrame({"user": users[pairs[:, 0]], "item": items[pairs[:, 1]]})
    folds = KFold(3, shuffle=True, random_state=0)
    model = lr.MatrixCompletion(2, "learned")
    by_ids, by_index = (cross_val_score(model, X, values, cv=folds) for X in (frame, pairs))
    np.testing.assert_allclose(by_ids, by_index)


def test_what_is_refused(data, plain):
    pairs, values, users, items = data
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"user": users[pairs[:, 0]], "item": items[pairs[:, 1]], "rating": values})
    model = lr.MatrixCompletion(**OPTIONS)
    for options, message in (
        ({"rows": "usr"}, "rows='usr': the data frame has no such column; its columns are 'user', 'item', 'rating'"),
        ({"rows": "user"}, "cols=... is missing"),
        ({"rows": "user", "cols": "user"}, "'user' is asked for twice"),
        ({"y": values}, "given twice"),
        ({"sample_weight": "w"}, "sample_weight='w'"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(frame, **options)
    with pytest.raises(ValueError, match="which column is which"):
        model.fit(frame.rename(columns={"rating": "colour"}).assign(time=1))
    with pytest.raises(ValueError, match="rows, cols and values are the names of columns"):
        model.fit(pairs, values, rows="user")
    with pytest.raises(ValueError, match=r"row ids must be whole numbers or text, got .* at position 2"):
        model.fit(frame.assign(user=[*users[:2], None, *users[pairs[3:, 0]]]).astype({"user": object}))
    with pytest.raises(ValueError, match="shape is for index pairs"):
        lr.MatrixCompletion(shape=(60, 40)).fit(frame)
    with pytest.raises(ValueError, match="this model was fitted to index pairs"):
        plain.predict([("u03", "u04")])
    fitted = model.fit(frame)
    with pytest.raises(ValueError, match="row ids are text in this model"):
        fitted.predict([[3, 1028]])
    with pytest.raises(ValueError, match="which column is which"):
        fitted.predict(frame.rename(columns={"user": "who"}).assign(a=1, b=2))


def test_long_ids_are_encoded_like_short_ones():
    ids, codes = encode_ids(np.array(["b", "a" * 3000, "b", "c"], dtype=object), "row")
    np.testing.assert_array_equal(ids, ["a" * 3000, "b", "c"])
    np.testing.assert_array_equal(codes, [1, 0, 1, 2])


def test_columns_called_place_and_prediction_stay():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"place": list("aabbcc"), "prediction": list("xyxzyz"), "stars": [1.0, 2, 3, 4, 5, 1]})
    model = lr.MatrixCompletion(0, 1.0).fit(frame)
    found = model.recommend(["a", "b"], n=1, by="rating", as_frame="pandas")
    assert list(found.columns) == ["place", "prediction", "place_", "prediction_"]
    assert found["place"].tolist() == ["a", "b"]
    assert found["prediction"].tolist() == ["z", "y"]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_column_of_times_is_left_out_by_usual_names(data, package):
    module = pytest.importorskip(package)
    pairs, values, users, items = data
    columns = {"userId": users[pairs[:, 0]], "movieId": items[pairs[:, 1]], "rating": values}
    plain = lr.MatrixCompletion(**OPTIONS).fit(module.DataFrame(columns))
    times = {"timestamp": np.arange(len(pairs))}
    timed = lr.MatrixCompletion(**OPTIONS).fit(module.DataFrame(times | columns))
    assert timed.state_.labels == {"row": "userId", "col": "movieId", "value": "rating"}
    np.testing.assert_array_equal(timed.row_factors_, plain.row_factors_)
    asked = module.DataFrame(times | columns)
    np.testing.assert_array_equal(timed.predict(asked), plain.predict(module.DataFrame(columns)))


@pytest.mark.parametrize("estimator", [lr.MatrixCompletion, lr.ImplicitFactorization])
def test_pivoted_frames_are_refused_with_advice(estimator):
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame({"user": list("abcd")} | {f"film {k}": [1.0, np.nan, 3.0, 4.0] for k in range(5)})
    with pytest.raises(ValueError, match="melt"):
        estimator().fit(wide)
    many = pandas.DataFrame(np.ones((4, 30)), index=pandas.Index(list("abcd"), name="user"))  # as pivot returns
    with pytest.raises(ValueError, match=r"6, 7 and 22 others\..*X\.reset_index\(\)\.melt\(id_vars='user'"):
        estimator().fit(many)
    estimator(rank=1).fit(many.reset_index().melt(id_vars="user", var_name="item", value_name="value").dropna())
    long = wide.melt(id_vars="user", var_name="item", value_name="value").dropna()
    estimator(rank=1).fit(long)
