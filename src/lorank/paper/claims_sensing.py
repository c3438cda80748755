"""The claims about Gaussian sensing (Figures 6 and 7)."""

from __future__ import annotations

from .checks import factors, faster, similar, slower
from .claim import EVEN, NOT_RUN, SENSING, Claim, alike
from .trends import ahead, success, success_overall
from .verdicts import NO_DATA, NOT, PARTLY, REPRODUCED

SUCCESS = {
    REPRODUCED: "The rates agree to within a trial of ten.",
    PARTLY: "Ten trials tell a rate to within ten or twenty points.",
    NOT: EVEN,
    NO_DATA: "This box of the map was not run.",
}
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "sensing-iterations",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "When the oversampling ratio 1/q = 1.2, the number of iterations of adaptive-PRGD is about 1/2.35, 1/7.5, 1/9.4, and "
        "1/2 of that of adaptive-RGD, NIHT, Shampoo, and PRGD, respectively.",
        factors(
            "sensing-oversampling",
            "adaptive-prgd",
            [(m, "iterations", f) for m, f in (("adaptive-rgd", 2.35), ("niht", 7.5), ("shampoo", 9.4), ("prgd", 2.0))],
            oversampling=1.2,
            n1=150,
        ),
        SENSING,
    ),
    Claim(
        "sensing-time",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "When the oversampling ratio 1/q = 1.2, the computational time of adaptive-PRGD is about 1/2.3, 1/5.1, 1/6.3, and "
        "1/1.3 of that of adaptive-RGD, NIHT, Shampoo, and PRGD, respectively.",
        factors(
            "sensing-oversampling",
            "adaptive-prgd",
            [(m, "seconds", f) for m, f in (("adaptive-rgd", 2.3), ("niht", 5.1), ("shampoo", 6.3), ("prgd", 1.3))],
            oversampling=1.2,
            n1=150,
        ),
        SENSING,
    ),
    Claim(
        "sensing-ahead",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "Adaptive-PRGD outperforms the other four algorithms in terms of the number of iterations … the computational time of "
        "adaptive-PRGD is always less than that of adaptive-RGD, Shampoo, NIHT, and PRGD.",
        ahead("sensing-oversampling", "adaptive-prgd"),
        SENSING,
    ),
    Claim(
        "sensing-constant",
        "sensing-oversampling",
        "Section 4.2",
        "RGD with a constant step size performs poorly and requires many iterations.",
        slower("sensing-oversampling", "rgd", "adaptive-prgd", "iterations", 2, oversampling=1.2, n1=150),
        {
            REPRODUCED: "So it does.",
            PARTLY: "It takes more, though not twice as many.",
            NOT: "A constant step, tuned, does no worse than the exact one: the exact step is too long for this problem, "
            "which a "
            "part of it, or a short constant one, is not.",
            NO_DATA: NOT_RUN,
        },
    ),
    Claim(
        "sensing-comparable",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "PRGD has a comparable number of iterations to adaptive-RGD.",
        similar("sensing-oversampling", "prgd", "adaptive-rgd", "iterations"),
        alike("The iterations"),
    ),
    Claim(
        "sensing-prgd-time",
        "sensing-oversampling",
        "Section 4.2, Figure 6",
        "The computational time of PRGD is less than that of adaptive-RGD.",
        faster("sensing-oversampling", "prgd", "adaptive-rgd"),
        {
            REPRODUCED: "PRGD with a constant step makes one product with A less in each iteration.",
            PARTLY: "At some of the points.",
            NOT: "A constant step saves a product with A in each iteration; the number of iterations decides.",
            NO_DATA: NOT_RUN,
        },
    ),
    *(
        Claim(
            f"success-{rank}-{m}",
            "sensing-success",
            "Section 4.2, Figure 7",
            quote,
            success(rank, m, {"prgd": a, "adaptive-prgd": b, "adaptive-rgd": c}),
            SUCCESS,
        )
        for rank, m, quote, a, b, c in (
            (
                2,
                300,
                "When r = 2 and m = 300, PRGD and adaptive-PRGD are 100 % successful, while the success rate of adaptive-RGD "
                "is 80 %.",
                100,
                100,
                80,
            ),
            (
                8,
                900,
                "When r = 8, adaptive-PRGD and PRGD can be 100 % successful for m = 900, while the success rate of "
                "adaptive-RGD is 90 %.",
                100,
                100,
                90,
            ),
            (
                8,
                800,
                "When m = 800, the success rate of adaptive-PRGD and PRGD is 30 % and 20 %, respectively, while the success "
                "rate of adaptive-RGD is 0 %.",
                20,
                30,
                0,
            ),
        )
    ),
    Claim(
        "success-overall",
        "sensing-success",
        "Section 4.2, Figure 7",
        "The success rate of adaptive-PRGD is comparable to that of PRGD and is better than adaptive-RGD.",
        success_overall,
        SUCCESS | {REPRODUCED: "So it is, over the whole map.", PARTLY: "One half of the sentence holds.", NO_DATA: NOT_RUN},
    ),
)
