"""What the page says about each experiment: its title, what it shows, and how it was run."""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

from .panels import AT_LEAST, FAILED, FEWER, MEDIAN

PAPER = "A Preconditioned Riemannian Gradient Descent Algorithm for Low-Rank Matrix Recovery"

# name: (short name, title, what it shows and how it was run)
TEXTS = {
    "completion-size": (
        "Size",
        "Matrix completion: the size of the matrix",
        "How iterations and time to a relative error of 1e-4 grow with n. X = X_L X_Rᵀ with factors uniform on [0, 1]; "
        "m = 5, 6, 7 entries for each degree of freedom at ranks 10, 50, 100, seen uniformly at random. The paper's "
        "captions call this q = 5, 6, 7; by its own definition it is 1/q.",
    ),
    "completion-oversampling": (
        "Oversampling",
        "Matrix completion: how many entries are seen",
        "The same against 1/q, the number of observed entries for each degree of freedom: the fewer, the harder.",
    ),
    "completion-noise": (
        "Noise",
        "Matrix completion: noise",
        "Gaussian noise of relative size σ is added to the observed entries, and a run ends when X changes by less than "
        "1e-5 of its norm, as in the paper. That rule ends a slow method early: its error then lies above the line of "
        "the others.",
    ),
    "movielens": (
        "MovieLens",
        "MovieLens 1M",
        "A real table of a million ratings is fitted at ranks 5 and 10. The paper plots the fitting error alone, which "
        "more iterations always lower; the error on ratings that were held out, beside it, says whether that helps "
        "anybody. The dashed line is where the squared fitting error is 10⁻¹·⁴, the level that the paper names.",
    ),
    "sensing-oversampling": (
        "Sensing",
        "Matrix sensing: iterations and time",
        "A Gaussian matrix of rank 10 is recovered from its products with m Gaussian matrices. “Adaptive” is the exact "
        "line search.",
    ),
    "sensing-success": (
        "Success",
        "Matrix sensing: success rates",
        "How often a 50 × 50 matrix is recovered to 1e-4 within 500 iterations: white where every trial succeeds, black "
        "where none does, blue where none was made. The number in a box is the rate in percent.",
    ),
    "phase-real": (
        "Phase, real",
        "Phase retrieval, real",
        "A signal x of length n is recovered from |A x|² with a Gaussian A of m = 6n rows, until the relative residual "
        "is 1e-8. The paper shows iterations alone; seconds stand beside them, because its open problem is the time. "
        "The curves are those of the test with the median number of iterations.",
    ),
    "phase-complex": (
        "Phase, complex",
        "Phase retrieval, complex",
        "The same with a complex signal and complex measurements.",
    ),
    "theorem": (
        "Theorem 1",
        "The contraction of Theorem 1",
        "The theorem says that each step multiplies the error by 0.995 at most, for measurements with a small "
        "restricted isometry constant and the weights and steps of its proof (the policy `theory`). Here on Gaussian "
        "measurements of variance 1/m.",
    ),
}

# What marks of points mean, by their names in the figures.
MARKS = {
    AT_LEAST: ("○ ↑", "at least: half of the runs or more were cut short by their cap"),
    MEDIAN: ("◎", "the median: some runs, fewer than half, were cut short"),
    FEWER: ("○", "averaged over fewer tests than the other points"),
    FAILED: ("✕", "no test got there; where it ended"),
}

# The claims that the page names first, with what they are about.
BRIEF = (
    ("tenfold", "Completion, PRGD against RGD in time"),
    ("size-growth", "Completion, growth of PRGD's iterations with n"),
    ("noise-proportional", "Completion, error against noise"),
    ("movielens-half", "MovieLens, PRGD against RGD in iterations"),
    ("sensing-iterations", "Sensing, adaptive-PRGD against adaptive-RGD in iterations"),
    ("phase-real-third", "Phase retrieval, adaptive-PRGD against adaptive-RGD in iterations"),
    ("theorem", "Theorem 1, contraction of a step"),
)
