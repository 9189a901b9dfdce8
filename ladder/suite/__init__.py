"""The suite rung: minutes, no datasets; it says which layer is broken. Tiers: platform, runtime, operators and nets."""
