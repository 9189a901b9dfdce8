"""The same StableHLO text with every float as float64. Text only; no jax."""

import re
import struct

NARROW = re.compile(r"(?:(?<=x)|\b)(?:f32|bf16|f16)\b")
BITS = re.compile(r"dense<0x([0-9A-F]{8})>(?= : tensor<(?:\d+x)*f32>)")
# Bits that are read as a float, or floats whose bits are given at length, have no wider form.
NO_WIDER = ("stablehlo.bitcast_convert", 'dense<"0x')


def obstacle(text: str) -> str:
    """The operation for which a program has no wider form, or ""."""
    return next((what for what in NO_WIDER if what in text), "")


def widen(text: str) -> str:
    """The text with f64 in place of every float type; constants keep the values that they had."""
    return NARROW.sub("f64", BITS.sub(_wider_bits, text))


def _wider_bits(match: re.Match[str]) -> str:
    value = struct.unpack(">f", bytes.fromhex(match[1]))[0]
    return f"dense<0x{struct.pack('>d', value).hex().upper()}>"
