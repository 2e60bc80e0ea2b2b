#!/usr/bin/env bash
# Proves the units under a real systemd, which is process 1 of a container, by the commands of docs/guide/operations.md, "As
# system services" and "Backup and restore": packages and by hand, kill -9, a reboot, backup and restore, and what a unit says
# where something is missing. "How this page is tested", there, has the rest.
#
#   LUTHIER_TEST_CONTAINERS=1 deploy/test_units.sh [BIN_DIR]     default: build/release/bin
#
# Exit 77: skipped, with the reason.
# shellcheck disable=SC2016  # Commands are expanded on the machine that they are for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
bin=$(realpath "${1:-build/release/bin}")
page=$root/docs/guide/operations.md
# shellcheck source=/dev/null
. deploy/page.sh
# shellcheck source=/dev/null
. deploy/engine.sh
machine=luthier-units-$$

skip() { echo "skipped: $*"; exit 77; }
fail() {
  echo "FAILED: $*" >&2
  docker exec "$machine" sh -c 'systemctl --no-pager status luthierd luthier-worker; journalctl --no-pager -n 40 -u luthierd -u luthier-worker' >&2 2>/dev/null || true
  exit 1
}
step() { printf '== %s\n' "$*"; }

case ${LUTHIER_TEST_CONTAINERS:-} in
  1 | source) ;;
  *) skip "it takes a Docker engine, as root; LUTHIER_TEST_CONTAINERS=1 runs it" ;;
esac
command -v dpkg-shlibdeps >/dev/null || skip "there is no dpkg-dev, which makes the packages"

scratch=$(mktemp -d)
chmod 0755 "$scratch" # Users of the machine read what is in it.
clean_up() {
  local status=$?
  trap - EXIT
  if docker version >/dev/null 2>&1; then docker rm -f "$machine" >/dev/null 2>&1 || true; fi
  stop_engine
  rm -rf "$scratch"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
start_engine "$root/build/containers"

step "Packages of this build"
# A checkout of its own, with as much of a build as packages are made of.
mkdir -p "$scratch/build/release/bin"
cp -r deploy tools "$scratch"
cp "$bin/../CPackConfig.cmake" "$scratch/build/release/"
for program in luthierd luthier luthier-worker; do strip -o "$scratch/build/release/bin/$program" "$bin/$program"; done
(cd "$scratch" && bash -euo pipefail -c "$(page_block "$page" "As system services" 1)" >"$scratch/cpack.log" 2>&1) ||
  { cat "$scratch/cpack.log"; fail "cpack"; }

step "A machine with systemd as process 1"
printf '%s\n' 'FROM debian:bookworm-slim' \
  'RUN apt-get update && apt-get install -y --no-install-recommends systemd' \
  '# On a machine systemd finds its mounts shared, by which it hands credentials to services.' \
  'STOPSIGNAL SIGRTMIN+3' 'CMD ["sh", "-c", "mount --make-rshared / && exec /lib/systemd/systemd"]' >"$scratch/Dockerfile"
docker build -q -t luthier-systemd - <"$scratch/Dockerfile" >/dev/null || fail "the image does not build"
mounts=()
[[ ! -d /sys/fs/cgroup/systemd ]] || mounts=(--cgroupns host -v /sys/fs/cgroup/systemd:/sys/fs/cgroup/systemd:rw)
boot() {
  docker run -d --name "$machine" --hostname db1.example --tmpfs /run --tmpfs /run/lock -v "$scratch:/checkout:ro" \
    -w /checkout "${mounts[@]}" "$@" luthier-systemd >/dev/null 2>"$scratch/refused"
}
if ! boot --privileged; then
  # Where this machine's root has not all capabilities, those that systemd needs.
  docker rm -f "$machine" >/dev/null 2>&1 || true
  rights=(--security-opt seccomp=unconfined --security-opt systempaths=unconfined)
  for right in SYS_ADMIN NET_ADMIN SYS_PTRACE SYS_BOOT SYS_NICE SYS_TIME SYS_TTY_CONFIG DAC_READ_SEARCH IPC_LOCK AUDIT_CONTROL \
    AUDIT_READ SYSLOG LINUX_IMMUTABLE BLOCK_SUSPEND WAKE_ALARM; do
    rights+=(--cap-add "$right")
  done
  boot "${rights[@]}" || { cat "$scratch/refused"; skip "the engine starts no container that systemd could run in"; }
fi
on() { docker exec -i "$machine" bash -euo pipefail -c "$1"; }
# wait_for SECONDS WHAT COMMANDS
wait_for() {
  local end=$((SECONDS + $1))
  until on "$3" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "$2"
    sleep 0.3
  done
}
booted() { wait_for 60 "systemd does not start" 'case $(systemctl is-system-running) in running | degraded) ;; *) false ;; esac'; }
booted
on 'systemctl --version | sed -n 1p'

# box HEADING N: the commands as they stand.
box() {
  local text
  text=$(page_block "$page" "$1" "$2")
  printf '%s\n' "$text" | sed 's/^/# /'
  on "$text" >"$scratch/said" 2>&1 || { cat "$scratch/said"; fail "the commands of '$1', box $2"; }
}
active() { wait_for 30 "$1 is not active" "systemctl is-active $1"; }

step "From packages"
box "As system services" 2
box "As system services" 4
box "As system services" 5
grep -q 'db1.example/' "$scratch/said" || wait_for 20 "the worker did not ask" 'luthier worker list --db /var/lib/luthier | grep db1.example/'
on 'luthier health --server localhost:7790 --tls-ca /etc/luthier/ca.pem' || fail "no TLS"
on 'journalctl -u luthierd | grep "serving .*listen=0.0.0.0:7790 tls=yes tokens=auto"' >/dev/null || fail "no TLS, or no tokens"
on 'test -d /srv/luthier' || fail "the folder of data sets is missing"
on 'test "$(stat -c %a /var/lib/private/luthier/luthier.db)" = 600' || fail "others may read the database"
for unit in luthierd:1.5 luthier-worker:2.5; do
  score=$(on "systemd-analyze security --no-pager ${unit%:*}.service" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
  echo "${unit%:*}: exposure $score"
  awk -v s="$score" -v most="${unit#*:}" 'BEGIN { exit !(s != "" && s <= most) }' || fail "${unit%:*} is exposed: $score"
done

cat >"$scratch/slow.yaml" <<'STUDY'
space: [{name: x1, float: {min: -5, max: 10}}, {name: x2, float: {min: 0, max: 15}}]
objective: {builtin: {model: "function:branin", options: {steps: 5, delay: 0.5}}}
metric: {name: value, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 24}
lease: {ttl: 10s}
STUDY
create() { on "luthier study create -f /checkout/slow.yaml --name $1 --db /var/lib/luthier" >/dev/null 2>&1 || fail "study create"; }
completes() { wait_for 120 "the study $1 does not end" "luthier study wait $1 --timeout 1s --db /var/lib/luthier"; }
enough() { wait_for 60 "no trials of $1" "test \$(luthier trial list $1 --state COMPLETE -o csv --db /var/lib/luthier | tail -n +2 | wc -l) -ge $2"; }
count() { on "luthier trial list $1 --state COMPLETE -o csv --db /var/lib/luthier | tail -n +2 | wc -l"; }

step "kill -9 of both in the middle of a study"
create killed
enough killed 3
on 'systemctl kill -s KILL luthier-worker'
enough killed 8
on 'systemctl kill -s KILL luthierd'
active luthierd
completes killed
[[ $(count killed) == 24 ]] || fail "not 24 trials"
for unit in luthierd luthier-worker; do
  [[ $(on "systemctl show -p NRestarts --value $unit") == 1 ]] || fail "$unit was not started again once"
done

step "A reboot in the middle of a study"
create booted
enough booted 4
docker restart --time 90 "$machine" >/dev/null
booted
active luthierd
active luthier-worker
completes booted
[[ $(count booted) == 24 ]] || fail "not 24 trials"
[[ $(on "luthier trial list booted -o json --db /var/lib/luthier" | grep -c '"worker":') == 24 ]] || fail "a trial was run again: the stop was not awaited"

step "Backup and restore"
before=$(on 'luthier trial list killed -o csv --db /var/lib/luthier')
box "Backup and restore" 1
on 'luthier study delete killed --yes --db /var/lib/luthier' >/dev/null
box "Backup and restore" 2
active luthierd
[[ $(on 'luthier trial list killed -o csv --db /var/lib/luthier') == "$before" ]] || fail "the backup does not bring the study back"
on 'luthier health --server localhost:7790 --tls-ca /etc/luthier/ca.pem' >/dev/null || fail "the restored coordinator does not serve"
box "Damage" 1

step "A worker of a coordinator elsewhere"
box "As system services" 6
active luthier-worker
create elsewhere
completes elsewhere
on 'luthier worker list --db /var/lib/luthier -o json' >"$scratch/workers"
on 'journalctl -u luthier-worker -n 50 | grep -i "refuse"' && fail "the worker is refused after the restore"

step "Programs have a home, and the socket of the runtime directory"
echo 'touch "$HOME/seen" && echo "{\"y\": $(id -u)}"' >"$scratch/probe.sh"
printf '%s\n' 'space: [{name: x, float: {min: 0, max: 1}}]' 'metric: {name: y, goal: MINIMIZE}' 'budget: {max_trials: 1}' \
  'objective: {command: {argv: [sh, /checkout/probe.sh]}}' >"$scratch/probe.yaml"
on 'luthier study create -f /checkout/probe.yaml --db /var/lib/luthier' >/dev/null 2>&1
completes probe
[[ $(count probe) == 1 ]] || fail "a program finds no home"
on 'test -e /var/lib/private/luthier-worker/seen' || fail "a program's home is elsewhere"
on 'echo LUTHIER_LISTEN=unix:/run/luthier/socket >/etc/luthier/luthierd.env && systemctl restart luthierd && luthier health --server unix:/run/luthier/socket' >/dev/null ||
  fail "no socket in /run/luthier"
on 'echo LUTHIER_LISTEN=unix:/run/luthier.sock >/etc/luthier/luthierd.env; systemctl restart luthierd' >/dev/null 2>&1 && fail "a socket in /run was made"
on 'journalctl -u luthierd -n 20 | grep "luthierd: can.t listen on .*\(Permission denied\|Read-only file system\)"' || fail "the true error is not said"
on 'rm /etc/luthier/luthierd.env; systemctl stop luthierd; systemctl reset-failed luthierd; systemctl start luthierd' || fail "luthierd does not start again"

step "Without a token, and by hand"
on 'mv /etc/luthier/worker.token /root/'
on 'systemctl restart luthier-worker' >/dev/null 2>&1 || true
wait_for 20 "a worker without a token does not say so" 'journalctl -u luthier-worker -n 20 | grep 243/CREDENTIALS'
on 'mv /root/worker.token /etc/luthier/'
wait_for 30 "the worker does not find the token that came later" 'systemctl is-active luthier-worker'
box "As system services" 3
on 'systemctl restart luthierd luthier-worker'
on 'systemctl show -p ExecStart luthierd luthier-worker | grep -c path=/usr/local/bin/' >/dev/null || fail "the units of /etc are not used"
active luthier-worker
create hand
completes hand
[[ $(count hand) == 24 ]] || fail "not 24 trials"

step "A coordinator for this machine alone, without a certificate"
on 'mkdir -p /etc/systemd/system/luthierd.service.d
  printf "%s\n" "[Service]" LoadCredential= "Environment=LUTHIER_LISTEN=localhost:7790 LUTHIER_TLS_CERT= LUTHIER_TLS_KEY=" \
    >/etc/systemd/system/luthierd.service.d/alone.conf
  printf "%s\n" LUTHIER_SERVER=localhost:7790 LUTHIER_TLS_CA= >/etc/luthier/luthier-worker.env
  mv /etc/luthier/pki /etc/luthier/ca.pem /root/
  systemctl daemon-reload
  systemctl restart luthierd luthier-worker
  luthier health --server localhost:7790' >/dev/null || fail "it does not start without a certificate"
create alone
completes alone
[[ $(count alone) == 24 ]] || fail "not 24 trials"

step "The unit of before there were tokens starts, and the first call that is refused says what mends it"
on 'rm -r /etc/systemd/system/luthierd.service.d
  printf "%s\n" "[Service]" Type=exec "ExecStart=/usr/local/bin/luthierd --data-dir /var/lib/luthier --listen localhost:7790" \
    DynamicUser=yes StateDirectory=luthier >/etc/systemd/system/luthierd.service
  systemctl daemon-reload
  systemctl restart luthierd'
active luthierd
wait_for 20 "it does not serve" 'luthier health --server localhost:7790'
on 'luthier study list --server localhost:7790' >"$scratch/said" 2>&1 && fail "a call without a token is taken"
grep -q 'luthier admin token create' "$scratch/said" || { cat "$scratch/said"; fail "it is not said what mends it"; }
step "Units work"
