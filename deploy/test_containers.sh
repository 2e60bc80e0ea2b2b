#!/usr/bin/env bash
# Proves docker-compose.yml and the images: builds both, runs the demo study on three workers, checks who runs as what, kills
# the coordinator in between, and looks whether everything is still there afterwards.
#
#   LUTHIER_TEST_CONTAINERS=1 deploy/test_containers.sh
#
# Uses the Docker engine that answers, or starts one of its own under build/containers (as root; packages: section
# [containers] of tools/packages.txt), whose base image comes from the Debian mirror: no registry is needed. Such an engine
# leaves its chains, idle then, in the firewall. Exit 77: skipped, with the reason. LUTHIER_CONTAINERS_KEEP=1 keeps the
# engine's folder, so that the next run builds from its cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
state=$root/build/containers
export COMPOSE_PROJECT_NAME=luthier-test LUTHIER_PORT=${LUTHIER_PORT:-17790}

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

[[ ${LUTHIER_TEST_CONTAINERS:-} == 1 ]] || skip "it takes minutes and a Docker engine; LUTHIER_TEST_CONTAINERS=1 runs it"

if docker compose version >/dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose >/dev/null; then
  compose=(docker-compose)
else
  skip "neither docker compose nor docker-compose is installed (tools/install_packages.sh containers)"
fi

engine=
forward_policy=
clean_up() {
  local status=$?
  trap - EXIT
  if docker version >/dev/null 2>&1; then
    ((status == 0)) || "${compose[@]}" logs --tail 30 >&2 || true
    "${compose[@]}" down --volumes --timeout 10 >/dev/null 2>&1 || true
  fi
  if [[ -n $engine ]]; then
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    ip link delete docker0 2>/dev/null || true
    # The engine sets it to DROP, also for bridges that are not its own.
    [[ -z $forward_policy ]] || iptables -P FORWARD "$forward_policy" 2>/dev/null || true
    [[ ${LUTHIER_CONTAINERS_KEEP:-} == 1 ]] || rm -rf "$state"
  fi
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if ! docker version >/dev/null 2>&1; then
  [[ $(id -u) == 0 ]] || skip "no Docker engine answers, and only root can start one"
  for tool in dockerd mmdebstrap iptables ip; do
    command -v "$tool" >/dev/null || skip "no Docker engine answers, and $tool is missing (tools/install_packages.sh containers)"
  done
  step "A Docker engine of our own"
  mkdir -p "$state"
  forward_policy=$(iptables -S FORWARD 2>/dev/null | awk '$1 == "-P" { print $3; exit }') || true
  export DOCKER_HOST=unix://$state/sock
  dockerd --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/pid" -H "$DOCKER_HOST" \
    --bip 198.18.128.1/24 --default-address-pool base=198.18.160.0/19,size=24 >"$state/dockerd.log" 2>&1 &
  engine=$!
  for ((i = 0; i < 60; i++)); do
    docker version >/dev/null 2>&1 && break
    kill -0 "$engine" 2>/dev/null || { tail -n 5 "$state/dockerd.log"; skip "dockerd ends by itself here"; }
    sleep 0.5
  done
  docker version >/dev/null 2>&1 || { tail -n 5 "$state/dockerd.log"; skip "dockerd does not answer within 30 s"; }
  if ! docker image inspect debian:bookworm-slim >/dev/null 2>&1; then
    step "The base image, from the Debian mirror"
    mmdebstrap --quiet --variant=minbase bookworm "$state/base.tar" >"$state/mmdebstrap.log" 2>&1 ||
      { tail -n 5 "$state/mmdebstrap.log"; skip "mmdebstrap cannot make the base image: no Debian mirror?"; }
    docker import -c 'CMD ["bash"]' "$state/base.tar" debian:bookworm-slim >/dev/null
    rm "$state/base.tar"
  fi
  # The engine knows no registry: the classic builder needs no other image than that.
  export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
fi

step "docker-compose.yml is accepted"
"${compose[@]}" config --quiet || fail "the compose file is refused"

step "Images"
"${compose[@]}" build || fail "the images do not build"
for image in luthier-server luthier-worker; do
  user=$(docker image inspect -f '{{.Config.User}}' "$image")
  [[ $user == luthier ]] || fail "$image runs as '$user'"
done

step "The demo study on three workers"
"${compose[@]}" up -d --scale worker=3
demo=$("${compose[@]}" ps -q demo 2>/dev/null || true)
[[ -n $demo ]] || demo=$(docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --filter label=com.docker.compose.service=demo)
[[ -n $demo ]] || fail "there is no demo container"
status=$(timeout 300 docker wait "$demo") || fail "the demo study does not end"
docker logs "$demo"
[[ $status == 0 ]] || fail "the demo ends with $status"

luthier() { "${compose[@]}" exec -T coordinator luthier "$@"; }
trials() { luthier trial list logistic -o csv | tail -n +2; }
before=$(trials)
[[ $(wc -l <<<"$before") == 40 ]] || fail "there are not 40 trials"
[[ $(docker ps -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --filter label=com.docker.compose.service=worker | wc -l) == 3 ]] ||
  fail "there are not three workers"
for container in $("${compose[@]}" ps -q coordinator worker); do
  # Process 1 is docker-init; all of them belong to the user of the image.
  owners=$(docker top "$container" -eo pid,uid | awk 'NR > 1 { print $2 }' | sort -u | paste -sd ' ')
  [[ $owners == 10001 ]] || fail "processes of $container run as '$owners'"
done

step "The coordinator is killed and comes back with everything"
coordinator=$("${compose[@]}" ps -q coordinator)
docker kill -s KILL "$coordinator" >/dev/null
docker start "$coordinator" >/dev/null
for ((i = 0; i < 60; i++)); do
  [[ $(docker inspect -f '{{.State.Health.Status}}' "$coordinator") == healthy ]] && break
  sleep 1
done
[[ $(docker inspect -f '{{.State.Health.Status}}' "$coordinator") == healthy ]] || fail "the coordinator does not become healthy"
[[ $(trials) == "$before" ]] || fail "the trials have changed"

step "It stops at once when asked"
started=$SECONDS
docker stop --time 30 "$coordinator" >/dev/null
((SECONDS - started < 15)) || fail "stopping took $((SECONDS - started)) s"
[[ $(docker inspect -f '{{.State.ExitCode}}' "$coordinator") == 0 ]] || fail "it stopped with $(docker inspect -f '{{.State.ExitCode}}' "$coordinator")"
step "Containers work"
