#include <re2/re2.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/fleet/client_program.h"
#include "client/cli/fleet/engine.h"
#include "lib/base/status_macros.h"

// A fleet is one job of Ray, whose driver keeps a place for each worker and an actor on each node that has some: an
// actor is a Python process, which takes most of a second of a processor to start. The job's metadata hold the fleet's
// settings; its folder, which Ray brings to the nodes, what lets the workers in. The cluster is that of RAY_ADDRESS.
namespace luthier::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kRayMissing[] =
    "install ray[default], and set RAY_ADDRESS to the cluster's dashboard, as http://head:8265";

// The job's program.
constexpr char kRayDriver[] =
    R"(# Workers of Luthier, as `luthier worker up --on ray` submits them: a place for each worker, and on each node an actor
# that runs the workers which have their places there.
import asyncio
import concurrent.futures
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

PR_SET_PDEATHSIG = 1
MOST_GROUPS = 500

with open("fleet.json", encoding="utf-8") as file:
    FLEET = json.load(file)


# Ray would kill the workers before they give their trials back.
STAYS = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "false"}}


@ray.remote(num_cpus=0, max_concurrency=FLEET["workers"], runtime_env=STAYS)
class Host:
    def __init__(self):
        self.waiters = concurrent.futures.ThreadPoolExecutor(FLEET["workers"])

    async def work(self, number):
        """Runs a worker to its end; it is told to end when this process does."""
        for secret in ("token", "key.pem"):
            if os.path.exists(secret):
                os.chmod(secret, 0o600)
        program, *flags = FLEET["command"]
        if not os.access(program, os.X_OK):
            program = shutil.which("luthier-worker") or program
        prctl, host = ctypes.CDLL(None).prctl, os.getpid()

        def end_with_host():
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != host:
                os._exit(1)

        # The loop's thread starts it, as Linux sends that signal when the thread that started a process ends.
        worker = subprocess.Popen([program, *flags, "--name", f"{FLEET['name']}.{number}"], preexec_fn=end_with_host)
        return await asyncio.get_running_loop().run_in_executor(self.waiters, worker.wait)


class Places:
    """Keeps a place for each worker on nodes with room; Ray moves those of a node that is lost to others."""

    def __init__(self, workers):
        self.need = {name: FLEET[key] for name, key in (("CPU", "cpus"), ("GPU", "gpus")) if FLEET[key]}
        size = -(-workers // MOST_GROUPS)  # A group's places are found all at once: it has one, but in huge fleets.
        numbers = range(1, workers + 1)
        self.of = {}  # Each worker's group, and which of its places.
        self.left = {}  # Workers that may still run, by the id of their group.
        for first in range(0, workers, size):
            members = numbers[first : first + size]
            group = placement_group([self.need] * len(members))
            self.left[group.id] = len(members)
            self.of.update({number: (group, index) for index, number in enumerate(members)})

    def found(self, numbers):
        """Returns the nodes of those of these workers for whom there is room."""
        table = placement_group_table()
        nodes = {}
        for number in numbers:
            group, index = self.of[number]
            row = table.get(group.id.hex())
            if row is not None and row["state"] == "CREATED":
                nodes[number] = row["bundles_to_node_id"][index]
        return nodes

    def free(self, number):
        """Gives up the place of a worker that will run no more."""
        group, _ = self.of.pop(number)
        self.left[group.id] -= 1
        if self.left[group.id] == 0:
            remove_placement_group(group)


class Hosts:
    """An actor for each node; for each worker where it has GPUs, of which Ray tells an actor which are its own."""

    def __init__(self, places):
        self.places = places
        self.actors = {}
        self.of = {}  # Each running worker's actor, and the key of that.

    def start(self, number, node):
        """Starts a worker; returns the object of its exit code."""
        key = number if FLEET["gpus"] else node
        if key not in self.actors:
            options = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
            if FLEET["gpus"]:
                group, index = self.places.of[number]
                strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
                options = {"scheduling_strategy": strategy, "num_gpus": FLEET["gpus"]}
            self.actors[key] = Host.options(**options).remote()
        self.of[number] = (key, self.actors[key])
        return self.actors[key].work.remote(number)

    def ended(self, number, lost):
        """Forgets a worker that ended, and its actor if that is lost."""
        key, actor = self.of.pop(number)
        if lost and self.actors.get(key) is actor:
            ray.kill(self.actors.pop(key))  # It may only be out of reach.


def exit_code(number, run):
    """Returns the exit code of a worker that ended, 1 where none is known, and whether its host is lost."""
    try:
        return ray.get(run), False
    except (ray.exceptions.RayError, OSError) as error:
        print(f"worker {number}: {error}", flush=True)
        return 1, not isinstance(error, ray.exceptions.RayTaskError)


def main():
    ray.init()
    began = time.monotonic()
    places = Places(FLEET["workers"])
    hosts = Hosts(places)
    waiting = dict.fromkeys(places.of, began)  # The times from which they may start.
    runs = {}  # The worker and its start, by the object of its exit code.
    code = None  # That of a worker whose place nobody is to take.
    told = False  # Has it been said for how many there is no room?
    while runs or waiting:
        now = time.monotonic()
        due = [number for number, start in waiting.items() if start <= now]
        for number, node in places.found(due).items() if due else ():
            del waiting[number]
            runs[hosts.start(number, node)] = (number, now)
        if now > began + 10 and due and not told:
            told = True
            print(f"{len(due)} workers wait for a node with room: each needs {places.need}", flush=True)
        # Places are looked for as soon as Ray may have some, and less often while it has none.
        pause = min([1.0, *(max(0.0, start - now) for start in waiting.values() if start > now)])
        if any(number in waiting for number in due):
            pause = min(pause, 0.05 if now < began + 5 else 0.5)
        if not runs:
            time.sleep(pause)
            continue
        for run in ray.wait(list(runs), timeout=pause)[0]:
            number, start = runs.pop(run)
            ended, lost = exit_code(number, run)
            hosts.ended(number, lost)
            waiting[number] = start + 5  # If it was sent away, or died; not too often.
            # 0: nothing is left to do. 2, 4, 78: no other worker would fare better.
            if ended in (0, 2, 4, 78):
                code = max(code or 0, ended)
        if code is not None:
            for number in waiting:
                places.free(number)
            waiting.clear()
    return code


if __name__ == "__main__":
    sys.exit(main())
)";

absl::Status WriteJobFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return absl::FailedPreconditionError(absl::StrCat("can't write ", path));
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  return absl::OkStatus();
}

absl::Status CopyJobFile(const std::string& from, const std::string& to) {
  if (from.empty() || from == "system") return absl::OkStatus();
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  return error ? absl::FailedPreconditionError(absl::StrCat("can't copy ", from, ": ", error.message()))
               : absl::OkStatus();
}

class RayEngine final : public Engine {
 public:
  explicit RayEngine(const Environment& environment) : path_(environment.getenv("PATH").value_or("")) {}

  absl::Status Check(const Fleet& fleet) const override {
    if (fleet.image.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--image: is for k8s; Ray's nodes run the luthier-worker that they have");
  }

  std::string Manifest(const Fleet& fleet) const override {
    return absl::StrCat("# fleet.json\n", Description(fleet), "\n# fleet.py\n", kRayDriver);
  }

  absl::StatusOr<std::vector<FleetState>> List() const override {
    LUTHIER_ASSIGN_OR_RETURN(const std::string text, Call({"ray", "job", "list"}));
    std::vector<FleetState> fleets;
    for (const absl::string_view part : absl::StrSplit(text, "JobDetails(")) {
      const std::string job(part);
      static const auto* const kId = new RE2("submission_id='(luthier-[a-z0-9-]+)'");
      static const auto* const kStatus = new RE2("JobStatus\\.([A-Z]+)");
      static const auto* const kLabel = new RE2("'luthier':\\s*'n=([0-9]+) settings=([0-9a-f]+) for=([^']*)'");
      FleetState fleet;
      std::string status;
      if (!RE2::PartialMatch(job, *kId, &fleet.name) || !RE2::PartialMatch(job, *kStatus, &status) ||
          !RE2::PartialMatch(job, *kLabel, &fleet.workers, &fleet.settings, &fleet.works_for)) {
        continue;
      }
      fleet.id = absl::StrCat("job ", fleet.name);
      fleet.over = status != "RUNNING" && status != "PENDING";
      if (status == "RUNNING") fleet.running = fleet.workers;
      if (status == "PENDING") fleet.waiting = fleet.workers;
      fleet.note = status == "RUNNING" ? "" : absl::StrCat("the job is ", status);
      fleets.push_back(std::move(fleet));
    }
    return fleets;
  }

  absl::StatusOr<std::string> Start(const Fleet& fleet) const override {
    LUTHIER_RETURN_IF_ERROR(MakeFleetDirectory(fleet));
    const std::string folder = fleet.directory + "/job";
    std::error_code error;
    fs::create_directories(folder, error);
    const absl::Status written = WriteFolder(fleet, folder);
    absl::StatusOr<std::string> answer;
    if (written.ok()) {
      const Json label = {
          {"luthier", absl::StrCat("n=", fleet.workers, " settings=", fleet.Settings(), " for=", fleet.WorksFor())}};
      const std::vector<std::string> submit = {
          "ray",        "job",           "submit", "--no-wait", "--submission-id", fleet.Name(), "--metadata-json",
          label.dump(), "--working-dir", folder,   "--",        "python",          "fleet.py"};
      answer = Call(submit);
      // Ray may note once more that a job has stopped when that is deleted already: then a job without a label is left.
      if (!answer.ok() && absl::StrContains(answer.status().message(), "already exists") &&
          Call({"ray", "job", "delete", fleet.Name()}).ok()) {
        answer = Call(submit);
      }
    }
    fs::remove_all(folder, error);
    LUTHIER_RETURN_IF_ERROR(written);
    LUTHIER_RETURN_IF_ERROR(answer.status());
    return absl::StrCat("job ", fleet.Name());
  }

  absl::Status Resize(const Fleet& fleet, const FleetState& there) const override {
    if (fleet.workers == there.workers) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("a job of Ray keeps its ", there.workers, " workers; end it with `luthier worker down` first"));
  }

  absl::Status Logs(const Fleet&, const FleetState& there, int lines, std::ostream& out) const override {
    LUTHIER_ASSIGN_OR_RETURN(const std::string text, Call({"ray", "job", "logs", there.name}));
    const std::vector<absl::string_view> all = absl::StrSplit(text, '\n');
    const size_t shown = static_cast<size_t>(lines) * static_cast<size_t>(there.workers);
    for (size_t i = all.size() > shown ? all.size() - shown : 0; i < all.size(); ++i) out << all[i] << "\n";
    return absl::OkStatus();
  }

  absl::Status Stop(const Fleet&, const FleetState& there, absl::Duration) const override {
    if (!there.over) LUTHIER_RETURN_IF_ERROR(Call({"ray", "job", "stop", there.name}).status());
    // Its id is free again, for another `up`.
    return Call({"ray", "job", "delete", there.name}).status();
  }

  // A job that has stopped says nothing of what its actors started.
  bool TellsEnd() const override { return false; }

 private:
  static AccessFiles FilesOfJob(const Fleet& fleet) {
    AccessFiles files;
    if (!fleet.security.token.empty()) files.token = "token";
    if (!fleet.security.tls_ca.empty()) files.tls_ca = fleet.security.tls_ca == "system" ? "system" : "ca.pem";
    if (!fleet.security.tls_cert.empty()) files.tls_cert = "cert.pem";
    if (!fleet.security.tls_key.empty()) files.tls_key = "key.pem";
    return files;
  }

  static std::string Description(const Fleet& fleet) {
    Json json = Json::object();
    json["name"] = fleet.Name();
    json["workers"] = fleet.workers;
    json["cpus"] = fleet.TrialsAtOnce();
    json["gpus"] = fleet.gpus;
    json["command"] = Json::array({fleet.worker_program});
    for (const std::string& flag : WorkerFlags(fleet, FilesOfJob(fleet), "all")) json["command"].push_back(flag);
    return json.dump(2) + "\n";
  }

  static absl::Status WriteFolder(const Fleet& fleet, const std::string& folder) {
    LUTHIER_RETURN_IF_ERROR(WriteJobFile(folder + "/fleet.py", kRayDriver));
    LUTHIER_RETURN_IF_ERROR(WriteJobFile(folder + "/fleet.json", Description(fleet)));
    if (!fleet.security.token.empty()) {
      LUTHIER_RETURN_IF_ERROR(WriteJobFile(folder + "/token", fleet.security.token + "\n"));
    }
    LUTHIER_RETURN_IF_ERROR(CopyJobFile(fleet.security.tls_ca, folder + "/ca.pem"));
    LUTHIER_RETURN_IF_ERROR(CopyJobFile(fleet.security.tls_cert, folder + "/cert.pem"));
    return CopyJobFile(fleet.security.tls_key, folder + "/key.pem");
  }

  absl::StatusOr<std::string> Call(const std::vector<std::string>& argv) const {
    absl::StatusOr<std::string> output = ProgramOutput(path_, argv, "", kRayMissing);
    if (output.ok() || !absl::StrContains(output.status().message(), "ConnectionError")) return output;
    return absl::FailedPreconditionError(
        absl::StrCat(output.status().message(), "\nis RAY_ADDRESS the cluster's dashboard, as http://head:8265?"));
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<Engine> MakeRayEngine(const Environment& environment) {
  return std::make_unique<RayEngine>(environment);
}

}  // namespace luthier::cli
