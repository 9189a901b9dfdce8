"""The iree lowerer: a program's StableHLO through IREE's compiler and runtime. `lowerer` has it, for a worker's process;
nothing else here imports IREE's libraries: they are started in children."""
