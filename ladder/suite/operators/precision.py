"""What a platform's float32 products are computed in, from their error against float64."""

# The largest relative L2 error of N(0, 1) operands with K of hundreds that each class has. Rounding float32 operands to
# TF32's ten mantissa bits gives 2.9e-4, to bfloat16's seven 2.3e-3; float32 itself 1e-7 to 1e-6.
CLASSES = (("fp32", 1e-5), ("tf32-like", 1e-3), ("bf16-like", 1e-2))
UNKNOWN = "unknown"  # what a profile says that declares nothing


def classify(l2: float) -> str:
    """The class of a relative L2 error; `none` beyond bfloat16's, or not finite."""
    return next((name for name, most in CLASSES if l2 <= most), "none")


def limit(declared: str) -> float | None:
    """The largest error of a declared class; None when nothing is declared."""
    return dict(CLASSES).get(declared)
