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

// A fleet is one job of Ray, whose driver keeps an actor for each worker. The job's metadata hold the fleet's settings;
// its folder, which Ray brings to the nodes, what lets the workers in. The cluster is that of RAY_ADDRESS.
namespace luthier::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kRayMissing[] =
    "install ray[default], and set RAY_ADDRESS to the cluster's dashboard, as http://head:8265";

// The job's program.
constexpr char kRayDriver[] =
    R"(# Workers of Luthier, as `luthier worker up --on ray` submits them: an actor for each worker.
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import ray

PR_SET_PDEATHSIG = 1

with open("fleet.json", encoding="utf-8") as file:
    FLEET = json.load(file)


# Ray would kill the worker before it gives its trials back.
STAYS = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "false"}}


@ray.remote(num_cpus=FLEET["cpus"], num_gpus=FLEET["gpus"], max_restarts=-1, max_task_retries=-1, runtime_env=STAYS)
class Worker:
    def work(self, number):
        """Runs a worker to its end; it is told to end when this process does."""
        for secret in ("token", "key.pem"):
            if os.path.exists(secret):
                os.chmod(secret, 0o600)
        program, *flags = FLEET["command"]
        if not os.access(program, os.X_OK):
            program = shutil.which("luthier-worker") or program
        prctl = ctypes.CDLL(None).prctl
        worker = subprocess.Popen(
            [program, *flags, "--name", f"{FLEET['name']}.{number}"],
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        return worker.wait()


def main():
    ray.init()
    actors = {number: Worker.remote() for number in range(1, FLEET["workers"] + 1)}
    runs = {actor.work.remote(number): (number, time.monotonic()) for number, actor in actors.items()}
    code = None  # Of the first worker whose place nobody is to take.
    while runs:
        run = ray.wait(list(runs), num_returns=1)[0][0]
        number, since = runs.pop(run)
        try:
            ended = ray.get(run)
        except (ray.exceptions.RayError, OSError) as error:
            print(f"worker {number}: {error}", flush=True)
            ended = 1
        # 0: nothing is left to do. 2, 4, 78: no other worker would fare better.
        if ended in (0, 2, 4, 78):
            code = max(code or 0, ended)
        elif code is None:  # It was sent away, or died; not too often.
            time.sleep(max(0.0, min(5.0, since + 5.0 - time.monotonic())))
            runs[actors[number].work.remote(number)] = (number, time.monotonic())
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
      answer = Call({"ray", "job", "submit", "--no-wait", "--submission-id", fleet.Name(), "--metadata-json",
                     label.dump(), "--working-dir", folder, "--", "python", "fleet.py"});
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
    return ProgramOutput(path_, argv, "", kRayMissing);
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<Engine> MakeRayEngine(const Environment& environment) {
  return std::make_unique<RayEngine>(environment);
}

}  // namespace luthier::cli
