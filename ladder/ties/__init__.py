"""Ties: what two lowerers, platforms or variants of one program may differ by, measured and held against bounds."""
