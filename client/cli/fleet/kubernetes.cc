#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/fleet/client_program.h"
#include "client/cli/fleet/engine.h"
#include "lib/base/regular_file.h"
#include "lib/base/status_macros.h"

// A fleet is one Job with an index for each worker, and a Secret with what lets them in. Both have the fleet's name. A
// pod that ends with 0 says that nothing is left to do, one with 75 that it was sent away: the Job ignores those, and
// replaces them. It waits before it does, 10 s and each time twice as long, for each index by itself: a Job without
// indexes would wait for 10 s * 2^(k - 1) after k pods were sent away at once. Namespace and cluster are those of
// kubectl's context.
namespace luthier::cli {
namespace {

using PlainJson = nlohmann::json;

constexpr char kKubectlMissing[] =
    "install it, or see with --dry-run what would be applied, and hand it to kubectl where that is there";
constexpr char kOurLabel[] = "app.kubernetes.io/managed-by=luthier";
constexpr char kAccessFolder[] = "/access/";  // The folder in which pods find the Secret.
constexpr size_t kMostPemBytes = 1 << 20;

// Returns text as YAML, by way of JSON, which YAML contains.
std::string AsYaml(const std::string& text) {
  return PlainJson(text).dump(-1, ' ', false, PlainJson::error_handler_t::replace);
}

// Returns an argument of a container, in which $(NAME) would be a variable's value.
std::string ContainerArgument(const std::string& text) {
  return AsYaml(absl::StrReplaceAll(text, {{"$(", "$$("}}));
}

std::string TextAt(const PlainJson& json, const PlainJson::json_pointer& at) {
  return json.contains(at) && json.at(at).is_string() ? json.at(at).get<std::string>() : "";
}

int NumberAt(const PlainJson& json, const PlainJson::json_pointer& at) {
  return json.contains(at) && json.at(at).is_number_integer() ? json.at(at).get<int>() : 0;
}

// Returns the list at `at`; an empty one if there is none.
PlainJson ListAt(const PlainJson& json, const PlainJson::json_pointer& at) {
  return json.contains(at) && json.at(at).is_array() ? json.at(at) : PlainJson::array();
}

class KubernetesEngine final : public Engine {
 public:
  explicit KubernetesEngine(const Environment& environment) : path_(environment.getenv("PATH").value_or("")) {}

  absl::Status Check(const Fleet& fleet) const override {
    if (fleet.image.empty()) {
      return absl::InvalidArgumentError(
          "--image: is missing; name an image with luthier-worker and what your commands need "
          "(deploy/worker.Dockerfile builds one) that the cluster can pull");
    }
    if (absl::StartsWith(fleet.server, "unix:") || absl::StartsWith(fleet.server, "localhost") ||
        absl::StartsWith(fleet.server, "127.")) {
      return absl::InvalidArgumentError(
          absl::StrCat("--server ", fleet.server, ": is this machine alone; name the coordinator as pods reach it"));
    }
    return absl::OkStatus();
  }

  std::string Manifest(const Fleet& fleet) const override {
    const std::string name = fleet.Name();
    std::vector<std::string> arguments;
    for (const std::string& flag : WorkerFlags(fleet, FilesInPods(fleet), "all"))
      arguments.push_back(ContainerArgument(flag));
    const bool access = NeedsSecret(fleet);
    std::string text = absl::StrCat(
        "# Workers of Luthier, as `luthier worker up --on k8s` applies them",
        access ? ", with a Secret of the same name\n# that holds the token and certificates.\n" : ".\n",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ", name, "\n  labels: ", Labels(name),
        "\n  annotations:\n    luthier/settings: ", AsYaml(fleet.Settings()),
        "\n    luthier/works-for: ", AsYaml(fleet.WorksFor()),
        "\nspec:\n  completionMode: Indexed\n  completions: ", fleet.workers, "\n  parallelism: ", fleet.workers,
        "\n  backoffLimitPerIndex: 1000000\n"
        "  podFailurePolicy:\n    rules:\n"
        "    # Sent away by a signal, or by the cluster: replaced, and not counted.\n"
        "    - {action: Ignore, onExitCodes: {containerName: worker, operator: In, values: [75]}}\n"
        "    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}\n"
        "    # A wrong flag, no right to work, a study that this image can't evaluate: no other pod would "
        "fare better.\n"
        "    - {action: FailJob, onExitCodes: {containerName: worker, operator: In, values: [2, 4, 78]}}\n"
        "  template:\n    metadata:\n      labels: ",
        Labels(name), "\n    spec:\n      restartPolicy: Never\n      terminationGracePeriodSeconds: ",
        absl::ToInt64Seconds(absl::Ceil(fleet.EndsWithin(), absl::Seconds(1))),
        "\n      automountServiceAccountToken: false\n"
        "      securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, "
        "seccompProfile: {type: RuntimeDefault}}\n"
        "      containers:\n      - name: worker\n        image: ",
        AsYaml(fleet.image), "\n        args: [", absl::StrJoin(arguments, ", "),
        ", \"--name\", \"$(POD_NAME)\"]\n"
        "        env:\n        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
        "        resources:\n          requests: {cpu: \"",
        fleet.TrialsAtOnce(), "\"}\n");
    if (fleet.gpus > 0) absl::StrAppend(&text, "          limits: {nvidia.com/gpu: \"", fleet.gpus, "\"}\n");
    absl::StrAppend(
        &text,
        "        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n"
        "        volumeMounts:\n"
        "        - {name: state, mountPath: /var/lib/luthier-worker}\n"
        "        - {name: tmp, mountPath: /tmp}\n",
        access ? "        - {name: access, mountPath: /access, readOnly: true}\n" : "",
        "      volumes:\n      - {name: state, emptyDir: {}}\n      - {name: tmp, emptyDir: {}}\n",
        access ? absl::StrCat("      - {name: access, secret: {secretName: ", name, ", defaultMode: 288}}\n") : "");
    return text;
  }

  absl::StatusOr<std::vector<FleetState>> List() const override {
    LUTHIER_ASSIGN_OR_RETURN(const PlainJson jobs, Get({"jobs", "-l", kOurLabel}));
    LUTHIER_ASSIGN_OR_RETURN(const PlainJson pods, Get({"pods", "-l", kOurLabel}));
    std::vector<FleetState> fleets;
    for (const PlainJson& job : ListAt(jobs, "/items"_json_pointer)) {
      FleetState fleet;
      fleet.name = TextAt(job, "/metadata/name"_json_pointer);
      fleet.id = absl::StrCat("job/", fleet.name);
      fleet.settings = TextAt(job, "/metadata/annotations/luthier~1settings"_json_pointer);
      fleet.works_for = TextAt(job, "/metadata/annotations/luthier~1works-for"_json_pointer);
      fleet.workers = NumberAt(job, "/spec/parallelism"_json_pointer);
      for (const PlainJson& condition : ListAt(job, "/status/conditions"_json_pointer)) {
        const std::string type = TextAt(condition, "/type"_json_pointer);
        if (TextAt(condition, "/status"_json_pointer) != "True" || (type != "Complete" && type != "Failed")) continue;
        fleet.over = true;
        fleet.note = type == "Complete" ? "nothing was left to do" : TextAt(condition, "/message"_json_pointer);
      }
      for (const PlainJson& pod : ListAt(pods, "/items"_json_pointer)) {
        if (TextAt(pod, "/metadata/labels/luthier-fleet"_json_pointer) == fleet.name) CountPod(pod, &fleet);
      }
      if (fleet.over) {
        fleet.waiting = 0;
      } else if (const int left = NumberAt(job, "/status/succeeded"_json_pointer);
                 fleet.running + fleet.waiting + left < fleet.workers) {
        fleet.waiting = fleet.workers - fleet.running - left;
        if (const std::string refused = WhyNotCreated(fleet.name); !refused.empty()) fleet.note = refused;
      }
      fleets.push_back(std::move(fleet));
    }
    return fleets;
  }

  absl::StatusOr<std::string> Start(const Fleet& fleet) const override {
    LUTHIER_RETURN_IF_ERROR(ApplyAll(fleet));
    return absl::StrCat("job/", fleet.Name());
  }

  absl::Status Resize(const Fleet& fleet, const FleetState&) const override { return ApplyAll(fleet); }

  absl::Status Logs(const Fleet&, const FleetState& there, int lines, std::ostream& out) const override {
    LUTHIER_ASSIGN_OR_RETURN(const std::string text, Call({"kubectl", "logs", "--prefix", "--ignore-errors",
                                                           "--max-log-requests=10000", absl::StrCat("--tail=", lines),
                                                           absl::StrCat("--selector=luthier-fleet=", there.name)}));
    out << text;
    return absl::OkStatus();
  }

  absl::Status Stop(const Fleet&, const FleetState& there, absl::Duration patience) const override {
    const std::string selector = absl::StrCat("--selector=luthier-fleet=", there.name);
    LUTHIER_RETURN_IF_ERROR(
        Call({"kubectl", "delete", "jobs,secrets", selector, "--cascade=background", "--wait=false"}).status());
    return AwaitGone(patience, [&]() -> absl::StatusOr<bool> {
      LUTHIER_ASSIGN_OR_RETURN(const std::string left,
                               Call({"kubectl", "get", "pods,jobs,secrets", selector, "-o", "name"}));
      return absl::StripAsciiWhitespace(left).empty();
    });
  }

 private:
  static std::string Labels(const std::string& name) {
    return absl::StrCat(
        "{app.kubernetes.io/name: luthier-worker, app.kubernetes.io/managed-by: luthier, luthier-fleet: ", name, "}");
  }

  static bool NeedsSecret(const Fleet& fleet) {
    return !fleet.security.token.empty() || !fleet.security.tls_cert.empty() ||
           (!fleet.security.tls_ca.empty() && fleet.security.tls_ca != "system");
  }

  static AccessFiles FilesInPods(const Fleet& fleet) {
    AccessFiles files;
    if (!fleet.security.token.empty()) files.token = absl::StrCat(kAccessFolder, "token");
    if (!fleet.security.tls_ca.empty()) {
      files.tls_ca = fleet.security.tls_ca == "system" ? "system" : absl::StrCat(kAccessFolder, "ca.pem");
    }
    if (!fleet.security.tls_cert.empty()) files.tls_cert = absl::StrCat(kAccessFolder, "cert.pem");
    if (!fleet.security.tls_key.empty()) files.tls_key = absl::StrCat(kAccessFolder, "key.pem");
    return files;
  }

  static absl::Status AddFile(const std::string& path, const char* key, PlainJson* data) {
    if (path.empty() || path == "system") return absl::OkStatus();
    LUTHIER_ASSIGN_OR_RETURN(const base::FileText file, base::ReadRegularFile(path, kMostPemBytes));
    (*data)[key] = absl::Base64Escape(file.text);
    return absl::OkStatus();
  }

  // Applied by the server, so that no copy of the secrets is kept in an annotation.
  absl::Status Apply(const std::string& manifest) const {
    return Call({"kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=luthier", "-f", "-"},
                manifest)
        .status();
  }

  absl::Status ApplyAll(const Fleet& fleet) const {
    if (NeedsSecret(fleet)) {
      PlainJson data = PlainJson::object();
      if (!fleet.security.token.empty()) data["token"] = absl::Base64Escape(fleet.security.token);
      LUTHIER_RETURN_IF_ERROR(AddFile(fleet.security.tls_ca, "ca.pem", &data));
      LUTHIER_RETURN_IF_ERROR(AddFile(fleet.security.tls_cert, "cert.pem", &data));
      LUTHIER_RETURN_IF_ERROR(AddFile(fleet.security.tls_key, "key.pem", &data));
      LUTHIER_RETURN_IF_ERROR(
          Apply(absl::StrCat("apiVersion: v1\nkind: Secret\nmetadata:\n  name: ", fleet.Name(),
                             "\n  labels: ", Labels(fleet.Name()), "\ntype: Opaque\ndata: ", data.dump(), "\n")));
    }
    return Apply(Manifest(fleet));
  }

  // Counts a pod, and notes why it does not run.
  static void CountPod(const PlainJson& pod, FleetState* fleet) {
    const std::string phase = TextAt(pod, "/status/phase"_json_pointer);
    if (pod.contains("/metadata/deletionTimestamp"_json_pointer)) return;
    if (phase == "Running") ++fleet->running;
    if (phase != "Pending") return;
    ++fleet->waiting;
    for (const PlainJson& container : ListAt(pod, "/status/containerStatuses"_json_pointer)) {
      const std::string reason = TextAt(container, "/state/waiting/reason"_json_pointer);
      if (reason.empty() || reason == "ContainerCreating") continue;
      fleet->note = absl::StrCat(reason, ": ", TextAt(container, "/state/waiting/message"_json_pointer));
    }
    for (const PlainJson& condition : ListAt(pod, "/status/conditions"_json_pointer)) {
      if (TextAt(condition, "/reason"_json_pointer) == "Unschedulable") {
        fleet->note = absl::StrCat("Unschedulable: ", TextAt(condition, "/message"_json_pointer));
      }
    }
  }

  // Returns why the Job's controller was refused pods, a quota for instance; empty: it was not.
  std::string WhyNotCreated(const std::string& name) const {
    const absl::StatusOr<PlainJson> events =
        Get({"events", absl::StrCat("--field-selector=involvedObject.name=", name, ",reason=FailedCreate")});
    if (!events.ok()) return "";
    const PlainJson items = ListAt(*events, "/items"_json_pointer);
    return items.empty() ? "" : TextAt(items.back(), "/message"_json_pointer);
  }

  absl::StatusOr<PlainJson> Get(std::vector<std::string> what) const {
    what.insert(what.begin(), {"kubectl", "get"});
    what.insert(what.end(), {"-o", "json"});
    LUTHIER_ASSIGN_OR_RETURN(const std::string text, Call(what));
    PlainJson json = PlainJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return absl::FailedPreconditionError("kubectl get printed something that is not JSON");
    return json;
  }

  absl::StatusOr<std::string> Call(std::vector<std::string> argv, const std::string& input = "") const {
    argv.emplace_back("--request-timeout=20s");
    return ProgramOutput(path_, argv, input, kKubectlMissing);
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<Engine> MakeKubernetesEngine(const Environment& environment) {
  return std::make_unique<KubernetesEngine>(environment);
}

}  // namespace luthier::cli
