#!/bin/sh
@HEAD@# A health check for slurm.conf: it drains an idle host whose all-reduce is below the floor.
#   HealthCheckProgram=/etc/slurm/topo-health.sh HealthCheckNodeState=IDLE HealthCheckInterval=3600
# A host that cannot be measured is UNKNOWN, and one whose GPUs are in use is SKIPPED: both are said
# on standard error and in the system's log. Slurm ends the check after 60 s; it ends before that.
seconds=25 smi_seconds=7
@SLURM@
