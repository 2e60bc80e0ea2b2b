#!/usr/bin/env bash
# A real Kubernetes of one node on this machine, for tests, from API server to runc, in namespaces of its own: nothing of it is
# seen on the machine's network, and all its processes and mounts end with one process.
#
#   tools/cluster/kubernetes.sh build                  makes build/cluster/kubernetes by Go, twelve minutes of a processor
#   tools/cluster/kubernetes.sh up FOLDER CPUS         starts it; the node says that it has so many processors. FOLDER is made
#   tools/cluster/kubernetes.sh image FOLDER FILE      lets pods use an image: what `docker save` or kubernetes/image.py wrote
#   tools/cluster/kubernetes.sh run FOLDER WORD...     runs a program on the cluster's network, with its kubectl in PATH. Pods reach
#                                                      what listens there at 198.18.140.1, and services by their names
#   tools/cluster/kubernetes.sh down FOLDER            ends it
#
# Needs root, and the packages of [cluster] in tools/packages.txt; `build` needs Go 1.24 and Go's module proxy. Images come from no
# registry: there is no network. Without kube-proxy: of services only those without an address of their own (clusterIP: None) work.
# Exit: 0 done, 1 it did not start (logs are in FOLDER/log), 2 usage, 77 something is missing (a word says what).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
built=$root/build/cluster
gateway=198.18.140.1  # The node's address, of the block for tests of networks (RFC 2544).
names=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0" >&2; exit 2; }
skip() { echo "$*" >&2; exit 77; }

build() {
  local name version go=go
  if ! command -v go > /dev/null && [[ -x /usr/local/go/bin/go ]]; then go=/usr/local/go/bin/go; fi
  command -v "$go" > /dev/null || skip "Go is not installed"
  version=$("$go" env GOVERSION | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  ((${version:-0} >= 24)) || skip "Go 1.24 is needed; $(command -v "$go") is $("$go" env GOVERSION)"
  if [[ -x $built/kubernetes && -z $(find "$root/tools/cluster/kubernetes" -newer "$built/kubernetes" \( -name '*.go' -o -name 'go.*' \)) ]]; then
    return 0
  fi
  mkdir -p "$built/bin"
  # One package at a time, so that it fits beside another build; go.sum says what is taken from the proxy.
  (cd "$root/tools/cluster/kubernetes" &&
    CGO_ENABLED=0 "$go" build -p "${LUTHIER_JOBS:-1}" -trimpath -buildvcs=false -o "$built/kubernetes.new" -ldflags "-s -w
      -X k8s.io/component-base/version.gitVersion=v1.34.3 -X k8s.io/component-base/version.gitMajor=1
      -X k8s.io/component-base/version.gitMinor=34" .) || skip "Go could not build it: is its module proxy reached?"
  mv "$built/kubernetes.new" "$built/kubernetes"
  for name in "${names[@]}"; do ln -sf ../kubernetes "$built/bin/$name"; done
}

# Prints the name of the control group of the cluster in a folder.
group_of() { echo "luthier-$(printf '%s' "$1" | cksum | cut -d ' ' -f 1)"; }

# Prints the folders of that control group: one of each hierarchy that there is.
control_groups() {
  local group
  awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/mounts | while read -r group; do echo "$group/$(group_of "$1")"; done
}

configure_runtime() {
  local folder=$1
  mkdir -p "$folder/cni"
  cat > "$folder/containerd.toml" <<X
version = 2
root = "$folder/containerd/root"
state = "$folder/containerd/state"
[grpc]
  address = "$folder/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/test/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$folder/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
X
  cat > "$folder/cni/bridge.conflist" <<X
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "$folder/cni/addresses", "ranges": [[{"subnet": "198.18.140.0/22", "gateway": "$gateway"}]]}}]}
X
}

configure_kubelet() {
  local folder=$1
  cat > "$folder/kubelet.yaml" <<X
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /$(group_of "$folder")
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$folder/containerd.sock
address: $gateway
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: [$gateway]
clusterDomain: cluster.local
resolvConf: ""
maxPods: 110
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
podLogsDir: $folder/pods
localStorageCapacityIsolation: false
X
}

configure_api() {
  local folder=$1 token
  token=$(openssl rand -hex 16)
  openssl genrsa -out "$folder/accounts.key" 2048 2> /dev/null
  openssl rsa -in "$folder/accounts.key" -pubout -out "$folder/accounts.pub" 2> /dev/null
  (umask 077 && echo "$token,admin,admin,system:masters" > "$folder/tokens.csv")
  (umask 077 && cat > "$folder/kubeconfig") <<X
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://$gateway:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
X
}

# Starts a part in the background, with a log of its name.
part() {
  local name=$1
  shift
  "$@" > "log/$name" 2>&1 < /dev/null &
}

# The first process of the namespaces: starts the parts, and adopts what they leave.
inside() {
  local folder=$1 cpus=$2 cpu
  cd "$folder"
  ip link set lo up
  # A bridge that was given no address has the lowest of its ports': another one whenever pods come or go, and those that
  # know the old one reach nobody for ten seconds.
  ip link add pods address 0a:58:c6:12:8c:01 type bridge
  ip address add "$gateway/22" dev pods
  ip link set pods up
  # The kubelet counts processors here. The folders are empty: that is all that it needs.
  mkdir -p cpus none
  for ((cpu = 0; cpu < cpus; cpu++)); do mkdir -p "cpus/cpu$cpu"; done
  mount --bind cpus /sys/devices/system/cpu
  if [[ -d /sys/devices/system/node ]]; then mount --bind none /sys/devices/system/node; fi
  export PATH=$built/bin:$PATH KUBECONFIG=$folder/kubeconfig
  part containerd containerd -c containerd.toml
  part etcd etcd --name e --data-dir "$folder/etcd" --listen-client-urls http://127.0.0.1:2379 --unsafe-no-fsync \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
    --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster e=http://127.0.0.1:2380
  part kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address="$gateway" --cert-dir="$folder/certificates" \
    --token-auth-file=tokens.csv --authorization-mode=Node,RBAC --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file=accounts.pub --service-account-signing-key-file=accounts.key \
    --service-cluster-ip-range=10.233.0.0/24 --disable-admission-plugins=ServiceAccount --allow-privileged=true \
    --kubelet-preferred-address-types=InternalIP
  until kubectl get --raw /readyz > /dev/null 2>&1; do sleep 0.1; done
  part kube-controller-manager kube-controller-manager --kubeconfig=kubeconfig --service-account-private-key-file=accounts.key \
    --bind-address=127.0.0.1 --leader-elect=false
  part kube-scheduler kube-scheduler --kubeconfig=kubeconfig --bind-address=127.0.0.1 --leader-elect=false
  part names python3 "$root/tools/cluster/kubernetes/names.py" "$gateway" "$folder/kubeconfig"
  until ctr -a containerd.sock version > /dev/null 2>&1; do sleep 0.1; done
  part kubelet kubelet --config=kubelet.yaml --kubeconfig=kubeconfig --root-dir="$folder/kubelet" --hostname-override=node \
    --node-ip="$gateway"
  wait
}

# Runs a program in some of the cluster's namespaces.
enter() {
  local folder=$1 which=$2
  shift 2
  # shellcheck disable=SC2086  # A list of flags, split on purpose.
  exec nsenter --target "$(cat "$folder/pid")" $which -- env PATH="$built/bin:$PATH" KUBECONFIG="$folder/kubeconfig" "$@"
}

down() {
  local folder=$1 group
  [[ -f $folder/pid ]] || return 0
  folder=$(cd "$folder" && pwd)
  # The first process of a namespace of processes: with it the kernel ends all the others.
  kill -9 "$(cat "$folder/pid")" 2> /dev/null || true
  for _ in $(seq 200); do
    kill -0 "$(cat "$folder/pid")" 2> /dev/null || break
    sleep 0.05
  done
  control_groups "$folder" | while read -r group; do
    [[ ! -d $group ]] || find "$group" -depth -type d -exec rmdir {} \; 2> /dev/null || true
  done
  rm -f "$folder/pid"
}

up() {
  local folder=$1 cpus=$2 name group starter
  [[ $cpus =~ ^[1-9][0-9]{0,2}$ ]] || usage
  [[ $(id -u) == 0 ]] || skip "only root can start a Kubernetes node"
  for name in containerd runc ctr ip nsenter unshare openssl python3; do
    command -v "$name" > /dev/null || skip "$name is not installed: tools/install_packages.sh cluster"
  done
  [[ -x /usr/lib/cni/bridge ]] || skip "/usr/lib/cni/bridge is missing: tools/install_packages.sh cluster"
  [[ -x $built/kubernetes ]] || skip "build/cluster/kubernetes is not there: tools/cluster/kubernetes.sh build"
  unshare --net --mount --pid --fork true 2> /dev/null || skip "this machine makes no namespaces"
  # shellcheck source=/dev/null
  . "$root/deploy/engine.sh"
  mount_control_groups
  mkdir -p "$folder/log"
  folder=$(cd "$folder" && pwd)
  control_groups "$folder" | while read -r group; do
    mkdir -p "$group" 2> /dev/null || true
    # A new group of `cpuset` has no processors until it is told.
    for name in cpuset.cpus cpuset.mems; do
      [[ ! -f $group/../$name || ! -f $group/$name ]] || cat "$group/../$name" > "$group/$name"
    done
  done
  configure_runtime "$folder"
  configure_kubelet "$folder"
  configure_api "$folder"
  python3 "$root/tools/cluster/kubernetes/image.py" "$folder/pause.tar" docker.io/test/pause:1 --files /usr/bin/sleep \
    --entrypoint /usr/bin/sleep infinity
  unshare --net --mount --pid --fork --mount-proc --kill-child "$0" inside "$folder" "$cpus" > "$folder/log/inside" 2>&1 < /dev/null &
  starter=$!
  for _ in $(seq 600); do
    # The child of unshare, not unshare itself: the former is the first process of the namespaces.
    pgrep -P "$starter" > "$folder/pid" 2> /dev/null || true
    if [[ -s $folder/pid && -S $folder/containerd.sock ]] && "$0" image "$folder" "$folder/pause.tar" > /dev/null 2>&1 &&
      "$0" run "$folder" kubectl wait --for=condition=Ready node/node --timeout=5s > /dev/null 2>&1; then
      return 0
    fi
    kill -0 "$starter" 2> /dev/null || break
    sleep 0.1
  done
  echo "Kubernetes did not start; logs are in $folder/log" >&2
  tail -n 5 "$folder"/log/* >&2
  down "$folder"
  return 1
}

case ${1:-} in
  build) [[ $# == 1 ]] || usage; build ;;
  up) [[ $# == 3 ]] || usage; up "$2" "$3" ;;
  inside) [[ $# == 3 ]] || usage; inside "$2" "$3" ;;
  image) [[ $# == 3 ]] || usage; enter "$2" "--mount --net" ctr -a "$2/containerd.sock" -n k8s.io images import "$3" ;;
  run) [[ $# -ge 3 ]] || usage; folder=$2; shift 2; enter "$folder" --net "$@" ;;
  down) [[ $# == 2 ]] || usage; down "$2" ;;
  *) usage ;;
esac
