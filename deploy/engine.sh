#!/usr/bin/env bash
# A Docker engine for tests. Source it, in the root of the checkout:
#   start_engine FOLDER     uses the engine that answers, or starts one with all that is its own in FOLDER, as root, with a base
#                           image from the Debian mirror: no registry is needed. `skip` is called where there is no way.
#   stop_engine             ends it, if it was started. Its chains stay in the firewall, idle.
# `skip REASON` and `step TEXT` are the caller's. LUTHIER_CONTAINERS_KEEP=1 keeps FOLDER, so that the next run begins from its
# images.

engine=
engine_folder=
forward_policy=

# Where no control groups are mounted, as in some virtual machines, the engine needs those that the kernel has.
mount_control_groups() {
  local name
  [[ -d /sys/fs/cgroup ]] || return 0
  if [[ -f /sys/fs/cgroup/cgroup.controllers || -d /sys/fs/cgroup/memory ]]; then return 0; fi
  mountpoint -q /sys/fs/cgroup || mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup || return 0
  while read -r name; do
    mkdir -p "/sys/fs/cgroup/$name"
    mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" 2>/dev/null || rmdir "/sys/fs/cgroup/$name"
  done < <(awk '$1 !~ /^#/ && $4 == 1 { print $1 }' /proc/cgroups)
  mkdir -p /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd 2>/dev/null || true
}

start_engine() {
  local i
  engine_folder=$1
  command -v docker >/dev/null || skip "docker is not installed (tools/install_packages.sh containers)"
  # The engine knows no registry: the classic builder needs no other image than the base.
  export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
  if docker version >/dev/null 2>&1; then return 0; fi
  [[ $(id -u) == 0 ]] || skip "no Docker engine answers, and only root can start one"
  for tool in dockerd mmdebstrap iptables ip; do
    command -v "$tool" >/dev/null || skip "no Docker engine answers, and $tool is missing (tools/install_packages.sh containers)"
  done
  step "A Docker engine of our own"
  mkdir -p "$engine_folder"
  mount_control_groups
  forward_policy=$(iptables -S FORWARD 2>/dev/null | awk '$1 == "-P" { print $3; exit }') || true
  export DOCKER_HOST=unix://$engine_folder/sock
  dockerd --data-root "$engine_folder/data" --exec-root "$engine_folder/exec" --pidfile "$engine_folder/pid" -H "$DOCKER_HOST" \
    --bip 198.18.128.1/24 --default-address-pool base=198.18.160.0/19,size=24 >"$engine_folder/dockerd.log" 2>&1 &
  engine=$!
  for ((i = 0; i < 60; i++)); do
    docker version >/dev/null 2>&1 && break
    kill -0 "$engine" 2>/dev/null || { tail -n 5 "$engine_folder/dockerd.log"; engine=; skip "dockerd ends by itself here"; }
    sleep 0.5
  done
  docker version >/dev/null 2>&1 || { tail -n 5 "$engine_folder/dockerd.log"; skip "dockerd does not answer within 30 s"; }
  if ! docker image inspect debian:bookworm-slim >/dev/null 2>&1; then
    step "The base image, from the Debian mirror"
    mmdebstrap --quiet --variant=minbase bookworm "$engine_folder/base.tar" >"$engine_folder/mmdebstrap.log" 2>&1 ||
      { tail -n 5 "$engine_folder/mmdebstrap.log"; skip "mmdebstrap cannot make the base image: no Debian mirror?"; }
    docker import -c 'CMD ["bash"]' "$engine_folder/base.tar" debian:bookworm-slim >/dev/null
    rm "$engine_folder/base.tar"
  fi
  docker run --rm debian:bookworm-slim true 2>"$engine_folder/refused" ||
    { tail -n 3 "$engine_folder/refused"; skip "the engine starts no container here"; }
}

stop_engine() {
  [[ -n $engine ]] || return 0
  kill "$engine" 2>/dev/null || true
  wait "$engine" 2>/dev/null || true
  engine=
  ip link delete docker0 2>/dev/null || true
  # The engine sets it to DROP, also for bridges that are not its own.
  [[ -z $forward_policy ]] || iptables -P FORWARD "$forward_policy" 2>/dev/null || true
  [[ ${LUTHIER_CONTAINERS_KEEP:-} == 1 ]] || rm -rf "$engine_folder"
}
