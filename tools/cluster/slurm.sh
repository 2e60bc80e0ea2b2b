#!/usr/bin/env bash
# A real Slurm on this machine, for tests: a controller and nodes on loopback, all of them processes of one user.
#
#   tools/cluster/slurm.sh up FOLDER NODES CPUS    starts it; FOLDER/slurm.conf is then for SLURM_CONF. FOLDER is made.
#   tools/cluster/slurm.sh down FOLDER             ends it
#
# Needs the packages of [cluster] in tools/packages.txt. Started by root it runs as nobody, as whom jobs are to be submitted, too. Without munge
# and control groups; two partitions, `low` and `high`, of which the second preempts the first at once and requeues.
# Exit: 0 done, 1 it did not start (logs are in FOLDER/log), 2 usage, 77 Slurm is not installed.
set -euo pipefail

as_user=()
if [[ $(id -u) == 0 ]]; then as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups); fi
user=$("${as_user[@]}" id -un)

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0" >&2; exit 2; }

down() {
  local folder=$1
  [[ -f $folder/pids ]] || return 0
  # Jobs first: nobody else would end their processes.
  export SLURM_CONF=$folder/slurm.conf
  timeout 20 "${as_user[@]}" scancel --user="$user" --signal=KILL --full 2>/dev/null || true
  timeout 20 "${as_user[@]}" scancel --user="$user" 2>/dev/null || true
  for _ in $(seq 100); do
    [[ -n $(timeout 20 "${as_user[@]}" squeue --noheader 2>/dev/null || true) ]] || break
    sleep 0.1
  done
  tac "$folder/pids" | xargs -r kill 2>/dev/null || true
  for _ in $(seq 100); do
    xargs -r kill -0 < "$folder/pids" 2>/dev/null || break
    sleep 0.1
  done
  xargs -r kill -9 < "$folder/pids" 2>/dev/null || true
  rm -f "$folder/pids"
}

# Prints a port that is free, and of which others that are free follow.
free_port() { python3 - <<'P'
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])
P
}

configure() {
  local folder=$1 nodes=$2 cpus=$3 host node
  host=$(hostname -s)
  cat > "$folder/slurm.conf" <<X
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=100000,batch_sched_delay=0
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=30
MinJobAge=300
MaxArraySize=10001
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
X
  for node in $(seq "$nodes"); do
    echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=$cpus State=UNKNOWN"
    mkdir -p "$folder/spool/n$node"
  done >> "$folder/slurm.conf"
  cat >> "$folder/slurm.conf" <<X
PartitionName=low Nodes=n[1-$nodes] Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=0 MaxTime=INFINITE State=UP
PartitionName=high Nodes=n[1-$nodes] PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
X
}

up() {
  local folder=$1 nodes=$2 cpus=$3 node
  for program in slurmctld slurmd sinfo; do
    command -v "$program" > /dev/null || { echo "$program is not installed: tools/install_packages.sh cluster" >&2; exit 77; }
  done
  mkdir -p "$folder"/{state,spool,log}
  folder=$(cd "$folder" && pwd)
  configure "$folder" "$nodes" "$cpus"
  if [[ $(id -u) == 0 ]]; then chown -R nobody:nogroup "$folder"; fi
  : > "$folder/pids"
  "${as_user[@]}" slurmctld -D -f "$folder/slurm.conf" > "$folder/log/slurmctld" 2>&1 < /dev/null &
  echo $! >> "$folder/pids"
  for node in $(seq "$nodes"); do
    "${as_user[@]}" slurmd -D -N "n$node" -f "$folder/slurm.conf" > "$folder/log/n$node" 2>&1 < /dev/null &
    echo $! >> "$folder/pids"
  done
  for _ in $(seq 300); do
    idle=$(SLURM_CONF=$folder/slurm.conf "${as_user[@]}" sinfo -h -N -p low -o %t 2>/dev/null | grep -c '^idle$' || true)
    [[ $idle == "$nodes" ]] && return 0
    sleep 0.1
  done
  echo "slurm did not start; logs are in $folder/log" >&2
  tail -n 5 "$folder"/log/* >&2
  down "$folder"
  return 1
}

case ${1:-} in
  up) [[ $# == 4 ]] || usage; up "$2" "$3" "$4" ;;
  down) [[ $# == 2 ]] || usage; down "$2" ;;
  *) usage ;;
esac
