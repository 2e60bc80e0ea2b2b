#include "worker/objectives/command_inputs.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/command_template.h"
#include "lib/study/project.h"
#include "worker/process/environment.h"

namespace luthier::worker {
namespace {

constexpr size_t kMaxVariable = 64 << 10;  // Bytes of a parameter's environment variable; Linux allows 128 KiB.

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::Status CheckNoZeroByte(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.find('\0') == std::string::npos) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(base::Quote(text), " contains a zero byte, which no program can be given"));
  }
  return absl::OkStatus();
}

// Returns the environment of the program by name: the worker's own variables, the study's over them, and Luthier's.
absl::StatusOr<std::map<std::string, std::string>> EnvironmentOf(const CommandOptions& options,
                                                                 const RunRequest& request, const CommandInputs& inputs,
                                                                 const std::vector<std::string>& passed) {
  std::map<std::string, std::string> environment;
  for (const std::string& entry : passed) {
    const size_t equals = entry.find('=');
    environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : std::get<study::CommandObjective>(request.spec.objective).environment) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<std::string> expanded, study::ExpandTemplate(value, inputs.values));
    if (expanded) environment[name] = *std::move(expanded);
  }
  for (const auto& [name, value] : inputs.variables) environment[name] = value;
  if (static_cast<size_t>(request.slot) < options.gpus.size()) {
    environment["CUDA_VISIBLE_DEVICES"] = options.gpus[static_cast<size_t>(request.slot)];
    // GPUs numbered by the driver have nvidia-smi's numbers; those of the worker's own variable keep their meaning.
    if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) environment.emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  }
  return environment;
}

}  // namespace

namespace {

const std::optional<Account>& AccountOf(const CommandOptions& options, const std::string& study) {
  const auto found = options.accounts.find(std::string(study::ProjectOf(study)));
  return found == options.accounts.end() ? options.account : found->second;
}

}  // namespace

absl::StatusOr<PreparedCommand> PrepareCommand(const CommandOptions& options, const RunRequest& request,
                                               const PrivateDirectory& directory) {
  const auto& command = std::get<study::CommandObjective>(request.spec.objective);
  const std::string parameters_file = directory.path() + "/parameters.json";
  LUTHIER_RETURN_IF_ERROR(WriteText(parameters_file, ParametersJson(request)));
  const std::string direction_file = directory.path() + "/direction.json";
  if (!request.direction.empty()) {
    LUTHIER_RETURN_IF_ERROR(WriteText(direction_file, nlohmann::json(request.direction).dump() + "\n"));
  }
  const CommandInputs inputs = InputsOf(request, parameters_file, direction_file);
  PreparedCommand prepared;
  ProcessSpec& spec = prepared.process;
  for (const std::string& argument : command.argv) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<std::string> expanded, study::ExpandTemplate(argument, inputs.values));
    if (expanded) spec.argv.push_back(*std::move(expanded));
  }
  if (spec.argv.empty()) return absl::InvalidArgumentError("argv: nothing is left of the program and its arguments");
  InheritedVariables inherited = SortEnvironment(OwnEnvironment(), options.environment_allowed);
  prepared.withheld = std::move(inherited.withheld);
  const std::optional<Account>& account = AccountOf(options, request.study);
  if (account) SetAccountVariables(*account, &inherited.passed);
  LUTHIER_ASSIGN_OR_RETURN(const auto environment, EnvironmentOf(options, request, inputs, inherited.passed));
  for (const auto& [name, value] : environment) spec.environment.push_back(absl::StrCat(name, "=", value));
  LUTHIER_RETURN_IF_ERROR(CheckNoZeroByte(spec.argv));
  LUTHIER_RETURN_IF_ERROR(CheckNoZeroByte(spec.environment));
  spec.memory_limit_bytes = command.memory_limit_bytes;
  if (account) {
    spec.account = &*account;
    LUTHIER_RETURN_IF_ERROR(directory.HandTo(*account));
  }
  return prepared;
}

std::string ParametersJson(const RunRequest& request) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const study::ParameterSpec& spec : request.spec.space.parameters()) {
    const auto it = request.parameters.find(spec.name);
    if (it == request.parameters.end()) continue;
    if (const double* number = std::get_if<double>(&it->second)) {
      // An int is written without a point, a float always with one, so that readers get the expected type.
      if (std::holds_alternative<study::IntRange>(spec.domain))
        json[spec.name] = static_cast<int64_t>(*number);
      else
        json[spec.name] = *number;
    } else if (const bool* flag = std::get_if<bool>(&it->second)) {
      json[spec.name] = *flag;
    } else if (const auto* vector = std::get_if<std::vector<double>>(&it->second)) {
      json[spec.name] = *vector;
    } else {
      json[spec.name] = std::get<std::string>(it->second);
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

CommandInputs InputsOf(const RunRequest& request, const std::string& parameters_file,
                       const std::string& direction_file) {
  CommandInputs inputs;
  std::map<std::string, std::string>& values = inputs.values;
  std::map<std::string, std::string>& own = inputs.variables;
  std::map<std::string, int> users;  // Number of parameters for each variable: two names may map to one.
  for (const study::ParameterSpec& spec : request.spec.space.parameters()) ++users[ParameterVariable(spec.name)];
  for (const auto& [name, value] : request.parameters) {
    values[name] = study::FormatValue(value);
    // A vector may be longer than a variable can be; it is then in the parameters' file only.
    const bool fits = values[name].size() <= kMaxVariable;
    if (fits && users[ParameterVariable(name)] == 1) own[ParameterVariable(name)] = values[name];
  }
  own["LUTHIER_TRIAL"] = values["luthier.trial"] = absl::StrCat(request.trial);
  own["LUTHIER_STUDY"] = values["luthier.study"] = request.study;
  own["LUTHIER_ATTEMPT"] = values["luthier.attempt"] = absl::StrCat(request.attempt);
  own["LUTHIER_SEED"] = values["luthier.seed"] = absl::StrCat(request.seed);
  own["LUTHIER_METRIC"] = request.spec.metric.name;
  own["LUTHIER_PARAMETERS_FILE"] = values["luthier.parameters_file"] = parameters_file;
  own["LUTHIER_RESULT_FD"] = "3";
  own["LUTHIER_REPLY_FD"] = "4";
  if (request.target_step > 0) {
    own["LUTHIER_TARGET_STEP"] = values["luthier.target_step"] = absl::StrCat(request.target_step);
  }
  own["LUTHIER_GRADIENT"] = values["luthier.gradient"] = std::string(study::GradientUseName(request.gradient));
  if (!request.direction.empty()) {
    own["LUTHIER_DIRECTION_FILE"] = values["luthier.direction_file"] = direction_file;
  }
  if (request.tolerance) {
    own["LUTHIER_TOLERANCE"] = values["luthier.tolerance"] = study::FormatDouble(*request.tolerance);
  }
  if (!request.resume_checkpoint.empty()) {
    own["LUTHIER_CHECKPOINT"] = values["luthier.checkpoint"] = request.resume_checkpoint;
    own["LUTHIER_CHECKPOINT_STEP"] = values["luthier.checkpoint_step"] = absl::StrCat(request.resume_step);
  }
  return inputs;
}

std::string ParameterVariable(const std::string& name) {
  return "LUTHIER_PARAM_" + absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{".", "_"}});
}

}  // namespace luthier::worker
