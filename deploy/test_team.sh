#!/usr/bin/env bash
# "A coordinator for a team in ten minutes" (docs/guide/security.md) and "Start" (docs/guide/operations.md), literally: their
# commands are run on two machines that know each other by name. A machine is a network namespace with files, names and users
# of its own; the commands that the pages do not give to sudo are run by ordinary users.
#
#   deploy/test_team.sh [BIN_DIR]       default: build/release/bin
#
# Needs root and ip, else exit 77: skipped, with the reason. Its packets never leave the two namespaces.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=/dev/null
. deploy/page.sh
source_dir=$PWD
bin=$(realpath "${1:-build/release/bin}")

skip() { echo "skipped: $*"; exit 77; }
fail() {
  echo "FAILED: $*" >&2
  tail -n 20 "$scratch"/*/*.log >&2 2>/dev/null || true
  exit 1
}
step() { printf '== %s\n' "$*"; }

[[ $(id -u) == 0 ]] || skip "network namespaces need root"
for tool in ip unshare setpriv; do
  command -v "$tool" >/dev/null || skip "$tool is missing (packages iproute2, util-linux)"
done

scratch=$(mktemp -d)
run=luthier-$$
clean_up() {
  local status=$?
  trap - EXIT
  for machine in db1 gpu1; do
    # Only what runs in the namespaces that are ours.
    ip netns pids "$run-$machine" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
    ip netns delete "$run-$machine" 2>/dev/null || true
  done
  rm -rf "$scratch"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 0711 "$scratch"

step "Two machines, db1.example and gpu1.example"
ip netns add "$run-db1" 2>"$scratch/refused" || skip "no network namespace can be made here: $(<"$scratch/refused")"
ip netns add "$run-gpu1"
ip link add "lt-a$$" netns "$run-db1" type veth peer name "lt-b$$" netns "$run-gpu1" 2>"$scratch/refused" ||
  skip "no pair of interfaces can be made here: $(<"$scratch/refused")"
ip -n "$run-db1" address add 198.18.64.1/24 dev "lt-a$$"
ip -n "$run-gpu1" address add 198.18.64.2/24 dev "lt-b$$"
for link in "$run-db1 lo" "$run-db1 lt-a$$" "$run-gpu1 lo" "$run-gpu1 lt-b$$"; do
  # shellcheck disable=SC2086  # Namespace and interface.
  set -- $link
  ip -n "$1" link set "$2" up
done
printf '127.0.0.1 localhost\n198.18.64.1 db1.example\n198.18.64.2 gpu1.example\n' >"$scratch/hosts"

# Programs where every user finds them, and a sudo that is used as root alone.
mkdir -m 0755 "$scratch/bin"
cp "$bin"/{luthier,luthierd,luthier-worker} "$scratch/bin/"
# shellcheck disable=SC2016  # Expanded by the stub.
printf '#!/bin/sh\nexec "$@"\n' >"$scratch/bin/sudo"
chmod 0755 "$scratch"/bin/*
declare -A user=([db1]=61001 [gpu1]=61002)

# The folder, the home and the /var/lib of each machine, empty.
new_machines() {
  for machine in db1 gpu1; do
    ip netns pids "$run-$machine" | xargs -r kill -KILL 2>/dev/null || true
    rm -rf "${scratch:?}/$machine"
    install -d -o "${user[$machine]}" -g "${user[$machine]}" -m 0700 "$scratch/$machine" "$scratch/$machine"/{folder,home}
    install -d -m 0755 "$scratch/$machine/var"
    install -d -o "${user[$machine]}" -g "${user[$machine]}" -m 0755 "$scratch/$machine/var/luthier"
  done
}

# on MACHINE COMMANDS: by bash, as the machine's user; by root where they begin with sudo.
on() {
  local machine=$1 commands=$2 who=()
  [[ $commands == sudo\ * ]] || who=(setpriv "--reuid=${user[$1]}" "--regid=${user[$1]}" --clear-groups)
  # shellcheck disable=SC2016  # Expanded by the inner shell.
  ip netns exec "$run-$machine" unshare --mount bash -euc '
    mount --bind "$1/hosts" /etc/hosts
    mount --bind "$1/$2/var" /var/lib
    cd "$1/$2/folder"
    umask 022
    commands=$3
    export PATH=$1/bin:$PATH HOME=$1/$2/home
    unset XDG_STATE_HOME
    shift 3
    exec "$@" bash -euo pipefail -c "$commands"' _ "$scratch" "$machine" "$commands" "${who[@]}"
}

# run_box MACHINE TEXT: each line as it stands; servers go on behind.
run_box() {
  local machine=$1 line log
  while IFS= read -r line; do
    [[ -n $line ]] || continue
    printf '%s$ %s\n' "$machine" "$line"
    case $line in
      luthierd\ * | luthier-worker\ *)
        log=$scratch/$machine/${line%% *}.log
        : >"$log"
        on "$machine" "exec $line" >"$log" 2>&1 &
        if [[ $line == luthierd* ]]; then
          for ((i = 0; i < 300; i++)); do
            ! grep -q 'luthierd: serving on' "$log" || break
            kill -0 $! 2>/dev/null || fail "luthierd ended"
            sleep 0.1
          done
          grep -q 'luthierd: serving on' "$log" || fail "luthierd does not serve within 30 s"
        fi
        ;;
      *) on "$machine" "$line" || fail "'$line' on $machine" ;;
    esac
  done <<<"$2"
}

# Copies what a person takes from one machine to the other.
carry() {
  install -d -o "${user[gpu1]}" -g "${user[gpu1]}" "$scratch/gpu1/folder/pki"
  install -o "${user[gpu1]}" -g "${user[gpu1]}" -m 0644 "$scratch/db1/folder/pki/ca.pem" "$scratch/gpu1/folder/pki/"
  install -o "${user[gpu1]}" -g "${user[gpu1]}" -m 0600 "$scratch/db1/folder"/*.token "$scratch/gpu1/folder/"
}

# A study of `$1` (options that say who asks) is done by the worker that the page started.
study_is_done() {
  cp examples/branin.yaml "$scratch/$1/folder/study.yaml"
  on "$1" "luthier study create -f study.yaml $2 >/dev/null && luthier study wait study --timeout 60s $2 2>/dev/null >&2" || fail "the study is not done"
  on "$1" "luthier trial list study $2 -o json" >"$scratch/trials"
  grep -q '"worker": "gpu1/' "$scratch/trials" || fail "its trials are not by the worker of the token: $(head -c 2000 "$scratch/trials")"
}

page=$source_dir/docs/guide/security.md
step "A coordinator for a team in ten minutes"
new_machines
run_box db1 "$(page_block "$page" "A coordinator for a team in ten minutes" 1)"
run_box db1 "$(page_block "$page" "A coordinator for a team in ten minutes" 2)"
carry
run_box gpu1 "$(page_block "$page" "A coordinator for a team in ten minutes" 3)"
alice="--server db1.example:7790 --tls-ca pki/ca.pem --token-file alice.token"
study_is_done gpu1 "$alice"
printf '%s\n' 'space: [{name: x, float: {min: 0, max: 1}}]' 'metric: {name: y, goal: MINIMIZE}' 'budget: {max_trials: 2}' \
  'objective: {command: {argv: [sh, uid.sh]}}' >"$scratch/gpu1/folder/command.yaml"
# shellcheck disable=SC2016  # Expanded where a worker runs it.
echo 'echo "{\"y\": $(id -u)}"' >"$scratch/gpu1/folder/uid.sh"
on gpu1 "luthier study create -f command.yaml $alice >/dev/null && luthier study wait command --timeout 60s $alice 2>/dev/null >&2" || fail "the study with a command"
on gpu1 "luthier trial best command $alice -o json" >"$scratch/best"
grep -q "\"y\": ${user[gpu1]}" "$scratch/best" || fail "the command was not run by the worker's user"

step "Nobody comes in without what the page hands out"
refused() {  # exit code, what is said, options
  local status=0
  on gpu1 "luthier study list --server db1.example:7790 $3" >"$scratch/said" 2>&1 || status=$?
  [[ $status == "$1" ]] || fail "'luthier study list $3' exits with $status: $(<"$scratch/said")"
  grep -q "$2" "$scratch/said" || fail "'luthier study list $3' says: $(<"$scratch/said")"
}
refused 4 "token" "--tls-ca pki/ca.pem"
refused 2 "plain text" "--token-file alice.token"
refused 3 "no server answers" "--token-file alice.token --accept-plaintext"
on gpu1 "luthier admin pki init --out other >/dev/null"
refused 3 "no server answers" "--tls-ca other/ca.pem --token-file alice.token"
refused 4 "" "--tls-ca pki/ca.pem --token-file gpu1.token"

page=$source_dir/docs/guide/operations.md
step "Start, of docs/guide/operations.md"
new_machines
run_box db1 "$(page_block "$page" "Start" 1)"
carry
run_box gpu1 "$(page_block "$page" "Start" 2)"
study_is_done db1 "--db /var/lib/luthier"

step "README.md leads there"
grep -qF "docs/guide/security.md#a-coordinator-for-a-team-in-ten-minutes" README.md || fail "README.md has no link to the ten minutes"
echo "a coordinator for a team works as written"
