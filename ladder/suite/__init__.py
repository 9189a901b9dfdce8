"""The suite rung: minutes, no datasets, and it says which layer is broken. Tiers: platform, runtime, operators, nets."""
