"""The iree lowerer: a program's StableHLO through IREE's compiler and runtime.

`lowerer` has it, for a worker's process. What a parent asks (`preflight`) loads none of IREE: it starts children.
"""
