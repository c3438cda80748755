"""half_life: observations that count for less the older they are."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import lorank as lr
from lorank.estimators.decay import FAINTEST, Decay, Times, as_number, read_times

OPTIONS = {"rank": 2, "regularization": "learned"}
DAY = 86400.0


@pytest.fixture(scope="module")
def data():
    """Tastes that turn round: pairs, values and times in days; the values of later times are of other factors."""
    rng = np.random.default_rng(3)
    old, new = (rng.standard_normal((90, 2)) @ rng.standard_normal((2, 60)) for _ in range(2))
    pairs = np.argwhere(rng.random(old.shape) < 0.5)
    times = rng.uniform(0, 400, len(pairs))
    share = np.clip((times - 150) / 100, 0, 1)
    at = pairs[:, 0], pairs[:, 1]
    values = 3 + (1 - share) * old[at] + share * new[at] + 0.3 * rng.standard_normal(len(pairs))
    return pairs, values, times


def error(model, pairs, values):
    return float(np.sqrt(np.mean((model.predict(pairs) - values) ** 2)))


def test_weights_are_powers_of_two_with_mean_one(data):
    pairs, values, times = data
    model = lr.MatrixCompletion(**OPTIONS, half_life=100.0).fit(pairs, values, times=times)
    weights = 2.0 ** (-(times.max() - times) / 100)
    by_hand = lr.MatrixCompletion(**OPTIONS).fit(pairs, values, weights / weights.mean())
    np.testing.assert_allclose(model.predict(pairs), by_hand.predict(pairs), rtol=1e-6)
    assert model.half_life_ == 100.0
    assert by_hand.half_life_ is None
    both = lr.MatrixCompletion(**OPTIONS, half_life=100.0).fit(pairs, values, 1 + pairs[:, 0] % 2, times=times)
    again = lr.MatrixCompletion(**OPTIONS).fit(pairs, values, (1 + pairs[:, 0] % 2) * weights / weights.mean())
    np.testing.assert_allclose(both.predict(pairs), again.predict(pairs), rtol=1e-6)


def test_what_is_very_old_still_counts_a_little():
    decay = Decay.of(1.0, Times(np.array([0.0, 1e6]), False))
    weights = decay.weights(np.array([0.0, 1e6]))
    assert weights[0] / weights[1] == FAINTEST
    assert weights.mean() == 1


def test_it_pays_where_tastes_change_and_auto_finds_it(data):
    pairs, values, times = data
    late = times > 360
    train, test = (pairs[~late], values[~late]), (pairs[late], values[late])
    plain = lr.MatrixCompletion(**OPTIONS).fit(*train)
    chosen = lr.MatrixCompletion(**OPTIONS, half_life="auto").fit(*train, times=times[~late])
    assert error(chosen, *test) < 0.8 * error(plain, *test)
    assert chosen.half_life_ < 360
    tried = dict(chosen.half_lives_)
    assert tried[chosen.half_life_] == min(tried.values()) < tried[None]


def test_auto_leaves_what_does_not_change(data):
    pairs, values, _ = data
    times = np.random.default_rng(0).uniform(0, 1, len(values))
    same = lr.MatrixCompletion(**OPTIONS, half_life="auto").fit(pairs, values, times=times)
    assert same.half_life_ is None
    assert same.half_lives_[0][0] is None
    plain = lr.MatrixCompletion(**OPTIONS).fit(pairs, values)
    np.testing.assert_array_equal(same.predict(pairs), plain.predict(pairs))
    at_once = lr.MatrixCompletion(**OPTIONS, half_life="auto").fit(pairs, values, times=np.zeros(len(values)))
    assert at_once.half_life_ is None


@pytest.mark.parametrize("loss", ["robust", "huber", "ordinal"])
def test_with_losses(data, loss):
    pairs, values, times = data
    stars = np.clip(np.round(values), 1, 5)
    model = lr.MatrixCompletion(**OPTIONS, half_life=50.0, loss=loss).fit(pairs, stars, times=times)
    late = times > 300
    plain = lr.MatrixCompletion(**OPTIONS, loss=loss).fit(pairs, stars)
    assert error(model, pairs[late], stars[late]) < error(plain, pairs[late], stars[late])


def test_dates_of_every_kind_are_the_same_times():
    numbers = np.array([1.7e9, 1.7e9 + 3 * DAY])
    stamps = [datetime.fromtimestamp(t, UTC) for t in numbers]
    kinds = [
        numbers.astype("datetime64[s]"),
        stamps,
        [one.replace(tzinfo=None) for one in stamps],
        [one.isoformat() for one in stamps],
        np.array([one.isoformat(" ") for one in stamps], object),
    ]
    for times in kinds:
        found = read_times(times, None, 2)
        np.testing.assert_allclose(found.at, numbers)
        assert found.dates
    np.testing.assert_array_equal(read_times([date(1970, 1, 2)], None, 1).at, [DAY])
    for span in ("3d", "72h", " 3 D", timedelta(days=3), np.timedelta64(3, "D")):
        assert as_number(span, found) == as_number(span, Times(numbers, False)) == 3 * DAY


def test_frames(data):
    pandas = pytest.importorskip("pandas")
    pairs, values, times = data
    frame = pandas.DataFrame({"who": pairs[:, 0], "what": pairs[:, 1], "stars": values})
    frame["when"] = pandas.Timestamp("2024-01-01", tz="Europe/Paris") + pandas.to_timedelta(times, "D")
    names = {"rows": "who", "cols": "what", "values": "stars"}
    model = lr.MatrixCompletion(**OPTIONS, half_life="100d").fit(frame, **names, times="when")
    numbers = lr.MatrixCompletion(**OPTIONS, half_life=100).fit(pairs, values, times=times)
    np.testing.assert_allclose(model.predict(pairs), numbers.predict(pairs), rtol=1e-4)
    assert model.half_life_ == 100 * DAY
    with pytest.raises(ValueError, match="'hour': the data frame has no such column; its columns are 'who'"):
        model.fit(frame, **names, times="hour")


@pytest.mark.parametrize(
    ("half_life", "times", "words"),
    [
        (-1.0, None, "half_life must be positive"),
        (0, [1, 2, 3, 4], "half_life must be positive"),
        (np.nan, [1, 2, 3, 4], "half_life must be positive"),
        ("0d", [1, 2, 3, 4], "half_life must be positive"),
        ("-3d", [1, 2, 3, 4], "half_life='-3d' is no duration"),
        ("3 months", [1, 2, 3, 4], "half_life='3 months' is no duration: write a number and one of s, min"),
        (timedelta(days=-1), [1, 2, 3, 4], "half_life must be positive"),
        (3.0, None, "half_life=3.0 needs times"),
        ("auto", None, "half_life='auto' needs times"),
        (3.0, [1, 2, np.nan, 4], "times of observation 2 is nan"),
        (3.0, [1, 2, np.inf, 4], "times of observation 2 is inf"),
        (3.0, [1, 2, 3], "one time per observation: got shape .3,. for 4"),
        (3.0, "when", "names the column of a data frame"),
        ("3d", ["2024-01-01", "2024-13-01", "2024-01-01", "2024-01-01"], "observation 1 is '2024-13-01'"),
        ("3d", ["2024-01-01", None, "2024-01-01", "2024-01-01"], "times of observation 1 is None"),
        ("3d", np.array(["2024-01-01", "NaT"] * 2, "datetime64[D]"), "times of observation 1 is NaT"),
        (3.0, np.array(["2024-01-01"] * 4, "datetime64[D]"), "half_life=3.0 of what"),
        ("3d", [1996, 1997, 1998, 1999], "seconds since 1970: the times lie between 1996 and 1999"),
        ("3d", [1.7e12] * 4, "seconds since 1970"),
        (3.0, [1j, 2, 3, 4], "numbers or dates"),
        (3.0, np.ma.masked_array([1, 2, 3, 4], [0, 0, 1, 0]), "masked"),
        ("3d", [date(2024, 1, 1), 7, 8, 9], "all numbers, or all dates"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_leaves_the_model(half_life, times, words):
    pairs, values = [[0, 0], [0, 1], [1, 0], [1, 1]], [1.0, 2.0, 2.0, 3.0]
    model = lr.MatrixCompletion(0, 1.0).fit(pairs, values)
    before = vars(model).copy()
    model.set_params(half_life=half_life)
    with pytest.raises(ValueError, match=words):
        model.fit(pairs, values, times=times)
    assert vars(model) | {"half_life": None} == before


def test_partitions_have_no_times():
    problem = lr.Completion([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 2.0, 3.0], (2, 2))
    with pytest.raises(ValueError, match="times and half_life"):
        lr.MatrixCompletion(0, 1.0, half_life=1.0).fit(problem)


def test_searches_split_the_times(data):
    pairs, values, times = data
    folds = KFold(3, shuffle=True, random_state=0)
    late = lr.MatrixCompletion(**OPTIONS, half_life=100.0, handle_unknown="ignore")
    scores = cross_val_score(late, pairs, values, cv=folds, params={"times": times})
    assert np.isfinite(scores).all()
    search = GridSearchCV(late, {"half_life": [None, 100.0]}, cv=folds).fit(pairs, values, times=times)
    assert search.best_params_["half_life"] in (None, 100.0)


def test_partial_fit_ages_what_was_before(data):
    pairs, values, times = data
    early = times < 340
    model = lr.MatrixCompletion(**OPTIONS, half_life=60.0).fit(pairs[early], values[early], times=times[early])
    before = error(model, pairs[~early], values[~early])
    with pytest.raises(ValueError, match="fitted with a half_life: pass times"):
        model.partial_fit(pairs[~early], values[~early])
    with pytest.raises(ValueError, match="times were numbers in fit, and are dates now"):
        model.partial_fit(pairs[:1], values[:1], times=[date(2024, 1, 1)])
    model.partial_fit(pairs[~early], values[~early], times=times[~early])
    anew = lr.MatrixCompletion(**OPTIONS, half_life=60.0).fit(pairs, values, times=times)
    np.testing.assert_allclose(model._memory.entries.weights, anew._memory.entries.weights, rtol=1e-9)
    assert error(model, pairs[~early], values[~early]) < 0.5 * (before + error(anew, pairs[~early], values[~early]))


def test_partial_fit_for_ages(data):
    pairs, values, _ = data
    model = lr.MatrixCompletion(**OPTIONS, half_life=1.0).fit(pairs, values, times=np.zeros(len(values)))
    for year in (1e3, 1e4, 1e9):
        model.partial_fit(pairs[:50], values[:50], times=np.full(50, year))
    assert np.isfinite(model.predict(pairs)).all()


@pytest.mark.parametrize("half_life", [60.0, "auto", None])
def test_files_keep_the_clock(data, half_life, tmp_path):
    pairs, values, times = data
    early = times < 340
    model = lr.MatrixCompletion(**OPTIONS, half_life=half_life).fit(pairs[early], values[early], times=times[early])
    again = lr.load(model.save(tmp_path / "m.lorank"))
    assert (again.half_life, again.half_life_, again.half_lives_) == (half_life, model.half_life_, model.half_lives_)
    for one in (model, again):
        one.partial_fit(pairs[~early], values[~early], times=times[~early])
    np.testing.assert_array_equal(model.predict(pairs), again.predict(pairs))


def test_files_write_durations_as_text(data, tmp_path):
    pairs, values, times = data
    model = lr.MatrixCompletion(**OPTIONS, half_life=timedelta(days=60)).fit(
        pairs, values, times=(times * DAY).astype("datetime64[s]")
    )
    again = lr.load(model.save(tmp_path / "m.lorank"))
    assert again.half_life == f"{60 * DAY:f}s"
    again.fit(pairs, values, times=(times * DAY).astype("datetime64[s]"))
    np.testing.assert_array_equal(model.predict(pairs), again.predict(pairs))


def test_auto_with_a_class_that_came_late(data):
    pairs, values, times = data
    stars = np.clip(np.round(values), 1, 4)
    stars[np.argsort(times)[-3]] = 5.0
    late = lr.MatrixCompletion(rank=1, regularization="learned", loss="ordinal", half_life="auto", max_iter=3)
    late.fit(pairs, stars, times=times)
    assert late.classes_.tolist() == [1, 2, 3, 4, 5]
    assert np.isfinite([e for _, e in late.half_lives_]).all()


def test_auto_foretells_what_has_a_weight(data):
    pairs, values, times = data
    weights = 1.0 * (times < 250)
    model = lr.MatrixCompletion(**OPTIONS, half_life="auto").fit(pairs, values, weights, times=times)
    assert np.isfinite([e for _, e in model.half_lives_]).all()
    there = weights > 0
    same = lr.MatrixCompletion(**OPTIONS, half_life="auto").fit(pairs[there], values[there], times=times[there])
    np.testing.assert_allclose([e for _, e in model.half_lives_], [e for _, e in same.half_lives_], rtol=1e-6)


def test_auto_of_next_to_nothing_says_so():
    with pytest.raises(ValueError, match="half_life='auto' holds out the latest of 2 observations"):
        lr.MatrixCompletion(rank=0, half_life="auto").fit([[0, 0], [1, 1]], [1.0, 2.0], times=[0, 1])


def test_a_missing_date_of_pandas_is_named():
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.NA, pandas.NaT, None, np.nan):
        when = np.array([pandas.Timestamp("2024-01-01", tz="Europe/Berlin"), missing], object)
        with pytest.raises(ValueError, match="times of observation 1"):
            read_times(when, None, 2)
