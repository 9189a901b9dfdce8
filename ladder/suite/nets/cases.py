"""The tests of tier 2b, by name, and each net's family. No jax."""

from ladder.suite.case import Case, Side

DTYPES = {"f32": "float32", "bf16": "bfloat16"}
FAMILIES = {
    "linear": "dot",
    "mlp": "dot",
    "cifar8": "conv-pool",
    "cifar8-bn": "norm",
    "mobilenetv2": "depthwise",
    "mobilenetv4": "depthwise",
    "efficientnet": "swish-se",
    "vit": "attention",
    "resnet": "deep-conv",
    "convnext": "layernorm-dw7",
}


def split(name: str) -> tuple[str, str]:
    """`net-cifar8-bn-bf16` -> ("cifar8-bn", "bfloat16")."""
    net, _, short = name.removeprefix("net-").rpartition("-")
    return net, DTYPES[short]


def cases(side: Side) -> tuple[Case, ...]:
    """The same on every side."""
    del side
    return tuple(Case(f"net-{net}-{short}", 2, family) for net, family in FAMILIES.items() for short in DTYPES)
