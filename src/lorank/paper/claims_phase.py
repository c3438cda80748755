"""The claims about phase retrieval (Figure 8)."""

from __future__ import annotations

from .checks import factors, faster, similar
from .claim import EVEN, NOT_RUN, SENSING, Claim, alike
from .trends import ahead
from .verdicts import CLEAR, NO_DATA, NOT, PARTLY, REPRODUCED

PHASE = {**SENSING, PARTLY: f"Part of it holds. {EVEN}"}
PACES = ("adaptive-prgd", "adaptive-prgd-probes", "prgd", "prgd-probes")
CLAIMS: tuple[Claim, ...] = (
    *(
        claim
        for field in ("real", "complex")
        for claim in (
            Claim(
                f"phase-{field}-third",
                f"phase-{field}",
                f"Section 4.3, Figure 8 ({field})",
                "The number of iterations for adaptive-PRGD is approximately one-third that of adaptive-RGD and RGD.",
                factors(
                    f"phase-{field}", "adaptive-prgd", [("adaptive-rgd", "iterations", 3), ("rgd", "iterations", 3)], n1=128
                ),
                PHASE,
            ),
            Claim(
                f"phase-{field}-fewest",
                f"phase-{field}",
                f"Section 4.3, Figure 8 ({field})",
                "The adaptive-PRGD algorithm requires significantly fewer iterations than the adaptive-RGD, RGD, and PRGD "
                "algorithms.",
                ahead(f"phase-{field}", "adaptive-prgd", ("iterations",), margin=CLEAR),
                PHASE,
            ),
            Claim(
                f"phase-{field}-comparable",
                f"phase-{field}",
                f"Section 4.3, Figure 8 ({field})",
                "The number of iterations for PRGD is comparable to that of adaptive-RGD.",
                similar(f"phase-{field}", "prgd", "adaptive-rgd", "iterations"),
                alike("The iterations"),
            ),
            Claim(
                f"phase-{field}-time",
                f"phase-{field}",
                f"Sections 4.3 and 5 ({field})",
                "The computational time of adaptive-RGD is less than that of adaptive-PRGD because … adaptive-PRGD needs the "
                "explicit expression of G, which is time-consuming. Future research will explore methods to efficiently "
                "implement PRGD for phase retrieval.",
                faster(f"phase-{field}", "adaptive-rgd", "adaptive-prgd", pace=PACES),
                {
                    REPRODUCED: "Adaptive-RGD is faster here too. The open problem itself has an answer: random probes, in the "
                    "product that is made anyway, estimate the row norms of G (PRGD by probes), and for coded diffraction "
                    "FFTs give them; G is then never formed.",
                    PARTLY: "The two take about the same time.",
                    NOT: "Adaptive-PRGD is not slower here. The time of an iteration stands beside.",
                    NO_DATA: NOT_RUN,
                },
            ),
        )
    ),
)
