"""What the page says about each experiment: its title, what it shows, how it was run, and what changed."""
# ruff: noqa: RUF001 - texts for people have signs such as the one for times

from __future__ import annotations

from .panels import AT_LEAST, FAILED, FEWER, MEDIAN

PAPER = "A Preconditioned Riemannian Gradient Descent Algorithm for Low-Rank Matrix Recovery"

# name: (short name, figure of the paper, title, what it shows and how it was run)
TEXTS = {
    "completion-size": (
        "Size",
        "Figure 1, (a) to (f)",
        "Matrix completion: the size of the matrix",
        "How iterations and time to a relative error of 1e-4 grow with n. X = X_L X_Rᵀ with factors uniform on [0, 1]; "
        "m = 5, 6, 7 entries for each degree of freedom at ranks 10, 50, 100, seen uniformly at random. The paper's "
        "captions call this q = 5, 6, 7; by its own definition it is 1/q.",
    ),
    "completion-oversampling": (
        "Oversampling",
        "Figure 2, (a) to (d)",
        "Matrix completion: how many entries are seen",
        "The same against 1/q, the number of observed entries for each degree of freedom: the fewer, the harder. The "
        "lower panels "
        "enlarge the region of the small values, as the paper's do.",
    ),
    "completion-noise": (
        "Noise",
        "Figures 3 and 4",
        "Matrix completion: noise",
        "Gaussian noise of relative size σ is added to the observed entries, and a run ends when X changes by less than "
        "1e-5 of its norm, as in the paper. That rule ends a slow method early: its error then lies above the line of "
        "the others.",
    ),
    "movielens": (
        "MovieLens",
        "Figure 5",
        "MovieLens 1M",
        "A real table of a million ratings is fitted at ranks 5 and 10. The paper plots the fitting error alone, which "
        "more iterations always lower; the error on ratings that were held out, beside it, says whether that helps "
        "anybody. The dashed line is where the squared fitting error is 10⁻¹·⁴, the level that the paper names. Spikes are "
        "those of steps that are too long for a while: Shampoo's constant one, NIHT's, and the first ones of the guarded PRGD. "
        "For ratings lorank has models of their own.",
    ),
    "sensing-oversampling": (
        "Sensing",
        "Figure 6",
        "Matrix sensing: iterations and time",
        "A Gaussian matrix of rank 10 is recovered from its products with m Gaussian matrices. “Adaptive” is the exact "
        "line search, “relaxed” takes a part of the exact step.",
    ),
    "sensing-success": (
        "Success",
        "Figure 7",
        "Matrix sensing: success rates",
        "How often a 50 × 50 matrix is recovered to 1e-4 within 500 iterations: white where every trial succeeds, black "
        "where none does, blue where none was made. The number in a box is the rate in percent.",
    ),
    "phase-real": (
        "Phase, real",
        "Figure 8 (a)",
        "Phase retrieval, real",
        "A signal x of length n is recovered from |A x|² with a Gaussian A of m = 6n rows, until the relative residual "
        "is 1e-8. The paper shows iterations alone; seconds stand beside them, because its open problem is the time. "
        "The curves are those of the test with the median number of iterations.",
    ),
    "phase-complex": (
        "Phase, complex",
        "Figure 8 (b)",
        "Phase retrieval, complex",
        "The same with a complex signal and complex measurements.",
    ),
    "theorem": (
        "Theorem 1",
        "Theorem 1 (no figure)",
        "The contraction of Theorem 1",
        "The theorem says that each step multiplies the error by 0.995 at most, for measurements with a restricted "
        "isometry constant "
        "of at most 1/(50 + 100 √r κ) and the weights and steps of its proof (the policy “theory”). Inside the premise the "
        "measurements are built with that constant, A*A = I + δS with ‖S‖ = 1; beyond it they are Gaussian of variance 1/m.",
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
    ("sensing-iterations", "Sensing, adaptive-PRGD against the others in iterations"),
    ("phase-real-third", "Phase retrieval, adaptive-PRGD against adaptive-RGD and RGD in iterations"),
    ("theorem", "Theorem 1, contraction of a step"),
)

PROTOCOLS = {
    1: "the first protocol (RGD and Shampoo with exact steps, PRGD with constant ones; grids of different sizes)",
    2: "the second (constant and exact steps apart, the same budget of settings and tuning seeds for all)",
}

# What the first protocol gave at the paper's size, and what has changed since.
FORMER = {
    "tenfold": ("partly", "RGD was adaptive-RGD. Constant against constant, as the paper has it, RGD is slower."),
    "size-time": ("partly", "The same; and Shampoo had exact steps, NIHT less accurate SVDs."),
    "size-growth": ("partly", "It is RGD with constant steps whose iterations grow with n; with exact steps they grow less."),
    "size-pace": ("reproduced", "RGD with exact steps makes one pass more in an iteration than with constant ones."),
    "oversampling-three": ("partly", "RGD was adaptive-RGD."),
    "oversampling-trend": ("reproduced", "RGD was adaptive-RGD."),
    "oversampling-all": ("partly", "RGD and Shampoo had exact steps."),
    "noise-proportional": ("partly", "RGD and Shampoo had exact steps."),
    "noise-tenth": ("not", "RGD was adaptive-RGD."),
    "noise-trend": ("not", "RGD was adaptive-RGD."),
    "movielens-half": (
        "not",
        "A constant step of 0.82 with an ε of 5e-4 of the largest squared norm was not among those that PRGD chose from.",
    ),
    "movielens-smallest": ("not", "The same."),
    "sensing-iterations": ("not", "Relaxed steps stand beside the exact ones now; Shampoo is diagonal throughout."),
    "sensing-time": ("not", "The same."),
    "sensing-ahead": ("not", "The same."),
    "sensing-comparable": ("partly", "Every method was tuned again, with as many settings for each."),
    "sensing-prgd-time": ("reproduced", "The same; all seconds are of one machine now."),
    "success-2-300": ("partly", "Every method was tuned again, with as many settings for each."),
    "success-8-900": ("not", "The same."),
    "success-8-800": (
        "partly",
        "It was called so on the strength of a zero: all three methods failed, one of them in the paper, too.",
    ),
    "success-overall": ("partly", "Every method was tuned again, with as many settings for each."),
    "phase-real-third": ("partly", "Every method was tuned again, with as many settings for each."),
    "phase-real-comparable": ("not", "The same."),
    "phase-real-time": ("reproduced", "All seconds are of one machine now."),
    "phase-complex-third": ("partly", "Every method was tuned again, with as many settings for each."),
    "phase-complex-comparable": ("not", "The same."),
    "phase-complex-time": ("reproduced", "All seconds are of one machine now."),
    "theorem": ("reproduced", "It was tested beyond its premise alone, and that was not said."),
}
