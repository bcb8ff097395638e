#!/bin/sh
@HEAD@# A prolog for jobs that take the whole host: it drains a host whose all-reduce is below the floor,
# and ends with 1, for which Slurm drains it, too. A host that cannot be measured is UNKNOWN, and
# one whose GPUs are in use SKIPPED: the prolog says so on standard error and in the system's log, and
# ends with 0.
seconds=120 smi_seconds=15
@SLURM@
