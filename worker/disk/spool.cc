#include "worker/disk/spool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "worker/disk/durable_file.h"

namespace luthier::worker {
namespace {

using Json = nlohmann::json;

constexpr char kSuffix[] = ".result";
constexpr char kAsideSuffix[] = ".rejected";
constexpr int kVersion = 1;
constexpr size_t kMaxSpoolBytes = 64 << 20;

// Writes a number: JSON has no NaN.
Json Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

bool ReadNumber(const Json& json, double* out) {
  if (json.is_number()) {
    *out = json.get<double>();
    return true;
  }
  if (json == "NaN")
    *out = std::numeric_limits<double>::quiet_NaN();
  else if (json == "inf")
    *out = std::numeric_limits<double>::infinity();
  else if (json == "-inf")
    *out = -std::numeric_limits<double>::infinity();
  else
    return false;
  return true;
}

Json Numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(Number(value));
  return json;
}

// Reads a file's fields, and remembers whether all were there and of the right type.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  bool ok() const { return ok_; }
  const Json& Field(const char* key) {
    static const Json null;
    if (json_.is_object() && json_.contains(key)) return json_[key];
    ok_ = false;
    return null;
  }
  bool Has(const char* key) const { return json_.is_object() && json_.contains(key); }
  std::string Text(const char* key) {
    const Json& field = Field(key);
    ok_ = ok_ && field.is_string();
    return ok_ ? field.get<std::string>() : "";
  }
  std::string Bytes(const char* key) {
    std::string bytes;
    const std::string text = Text(key);
    ok_ = ok_ && text.size() % 2 == 0 && std::all_of(text.begin(), text.end(), [](char c) {
            return absl::ascii_isxdigit(static_cast<unsigned char>(c));
          });
    if (ok_) bytes = absl::HexStringToBytes(text);
    return bytes;
  }
  int64_t Integer(const char* key) {
    const Json& field = Field(key);
    ok_ = ok_ && field.is_number_integer();
    return ok_ ? field.get<int64_t>() : 0;
  }
  bool Flag(const char* key) {
    const Json& field = Field(key);
    ok_ = ok_ && field.is_boolean();
    return ok_ && field.get<bool>();
  }
  double Real(const char* key) {
    double value = 0.0;
    ok_ = ReadNumber(Field(key), &value) && ok_;
    return value;
  }
  std::vector<double> Reals(const char* key) {
    const Json& field = Field(key);
    ok_ = ok_ && field.is_array();
    std::vector<double> values;
    if (!ok_) return values;
    for (const Json& entry : field) {
      double value = 0.0;
      ok_ = ok_ && ReadNumber(entry, &value);
      values.push_back(value);
    }
    return values;
  }

 private:
  const Json& json_;
  bool ok_ = true;
};

// Leaves out a training with an outcome that this version does not know: the value still counts.
bool ReadTraining(const Json& json, std::optional<study::TrainingReport>* out) {
  Reader reader(json);
  study::TrainingReport training;
  const absl::StatusOr<study::TrainingOutcome> outcome = study::ParseTrainingOutcome(reader.Text("outcome"));
  if (reader.Has("gradient_norm")) training.gradient_norm = reader.Real("gradient_norm");
  if (reader.Has("duality_gap")) training.duality_gap = reader.Real("duality_gap");
  if (!reader.ok() || !outcome.ok()) return reader.ok();
  training.outcome = *outcome;
  *out = training;
  return true;
}

bool ReadMeasurement(const Json& json, study::Measurement* out) {
  Reader reader(json);
  out->step = reader.Integer("step");
  const Json& metrics = reader.Field("metrics");
  if (!metrics.is_object()) return false;
  for (const auto& [name, value] : metrics.items()) {
    if (!ReadNumber(value, &out->metrics[name])) return false;
  }
  if (reader.Has("elapsed_seconds")) out->elapsed_seconds = reader.Real("elapsed_seconds");
  if (reader.Has("gradient_seconds")) out->gradient_seconds = reader.Real("gradient_seconds");
  if (reader.Has("training") && !ReadTraining(json["training"], &out->training)) return false;
  if (!reader.Has("gradient")) return reader.ok();
  Reader inner(json["gradient"]);
  study::Gradient gradient;
  gradient.values = inner.Reals("values");
  gradient.direction = inner.Reals("direction");
  gradient.slope = inner.Real("slope");
  if (inner.Has("error_bound")) gradient.error_bound = inner.Real("error_bound");
  if (inner.Has("solve")) {
    Reader from(json["gradient"]["solve"]);
    study::ImplicitSolve& solve = gradient.solve.emplace();
    solve.tolerance = from.Real("tolerance");
    solve.inner_gradient_norm = from.Real("inner_gradient_norm");
    solve.residual = from.Real("residual");
    solve.outer_gradient_norm = from.Real("outer_gradient_norm");
    solve.strong_convexity = from.Real("strong_convexity");
    if (from.Has("log_error_bound")) solve.log_error_bound = from.Real("log_error_bound");
    solve.certified = from.Real("certified") != 0.0;
    if (!from.ok()) return false;
  }
  out->gradient = std::move(gradient);
  return reader.ok() && inner.ok();
}

Json ToJson(const study::Measurement& measurement) {
  Json json = {{"step", measurement.step}, {"metrics", Json::object()}};
  for (const auto& [name, value] : measurement.metrics) json["metrics"][name] = Number(value);
  if (measurement.elapsed_seconds) json["elapsed_seconds"] = Number(*measurement.elapsed_seconds);
  if (measurement.gradient_seconds) json["gradient_seconds"] = Number(*measurement.gradient_seconds);
  if (measurement.training) {
    const study::TrainingReport& training = *measurement.training;
    json["training"] = {{"outcome", std::string(study::TrainingOutcomeName(training.outcome))}};
    if (training.gradient_norm) json["training"]["gradient_norm"] = Number(*training.gradient_norm);
    if (training.duality_gap) json["training"]["duality_gap"] = Number(*training.duality_gap);
  }
  if (measurement.gradient) {
    const study::Gradient& gradient = *measurement.gradient;
    json["gradient"] = {{"values", Numbers(gradient.values)},
                        {"direction", Numbers(gradient.direction)},
                        {"slope", Number(gradient.slope)}};
    if (gradient.error_bound) json["gradient"]["error_bound"] = Number(*gradient.error_bound);
    if (gradient.solve) {
      const study::ImplicitSolve& solve = *gradient.solve;
      Json& out = json["gradient"]["solve"];
      out = {{"tolerance", Number(solve.tolerance)},
             {"inner_gradient_norm", Number(solve.inner_gradient_norm)},
             {"residual", Number(solve.residual)},
             {"outer_gradient_norm", Number(solve.outer_gradient_norm)},
             {"strong_convexity", Number(solve.strong_convexity)},
             {"certified", Number(solve.certified ? 1.0 : 0.0)}};
      if (solve.log_error_bound) out["log_error_bound"] = Number(*solve.log_error_bound);
    }
  }
  return json;
}

}  // namespace

std::string SpoolFileName(const std::string& token) {
  return absl::BytesToHexString(token) + kSuffix;
}

std::string SerializeResult(const FinalResult& result) {
  Json json = {{"version", kVersion},
               {"study", result.study},
               {"trial", result.trial},
               {"token", absl::BytesToHexString(result.token)},
               {"failed", result.failed},
               {"checkpoint", result.checkpoint},
               {"output_tail", result.output_tail}};
  if (result.failed) {
    json["failure"] = {{"config", result.failure.kind == study::FailureKind::kConfig},
                       {"reason", result.failure.reason},
                       {"message", result.failure.message}};
  } else {
    json["measurement"] = ToJson(result.measurement);
    json["pruned"] = result.pruned;
    if (result.paused) json["paused"] = true;
  }
  if (result.start_step) json["start_step"] = *result.start_step;
  if (result.checkpoint_step) json["checkpoint_step"] = *result.checkpoint_step;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<FinalResult> ParseResult(const std::string& text) {
  const absl::Status bad = absl::InvalidArgumentError("is not a spooled result of this version");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Reader reader(json);
  if (reader.Integer("version") != kVersion) return bad;
  FinalResult result;
  result.study = reader.Text("study");
  result.trial = reader.Integer("trial");
  result.token = reader.Bytes("token");
  result.failed = reader.Flag("failed");
  result.checkpoint = reader.Text("checkpoint");
  result.output_tail = reader.Text("output_tail");
  if (reader.Has("start_step")) result.start_step = reader.Integer("start_step");
  if (reader.Has("checkpoint_step")) result.checkpoint_step = reader.Integer("checkpoint_step");
  if (!reader.ok()) return bad;
  if (!result.failed) {
    result.pruned = reader.Flag("pruned");
    result.paused = reader.Has("paused") && reader.Flag("paused");
    if (!ReadMeasurement(reader.Field("measurement"), &result.measurement) || !reader.ok()) return bad;
    return result;
  }
  Reader failure(reader.Field("failure"));
  result.failure.kind = failure.Flag("config") ? study::FailureKind::kConfig : study::FailureKind::kInfra;
  result.failure.reason = failure.Text("reason");
  result.failure.message = failure.Text("message");
  if (!failure.ok()) return bad;
  return result;
}

absl::StatusOr<Spool> Spool::Open(std::string directory) {
  LUTHIER_RETURN_IF_ERROR(MakeDirectory(directory));
  Spool spool(std::move(directory));
  LUTHIER_RETURN_IF_ERROR(spool.Ready());
  return spool;
}

absl::Status Spool::Ready() const {
  if (access(directory_.c_str(), R_OK | W_OK | X_OK) == 0) return absl::OkStatus();
  if (errno == ENOENT) {
    LUTHIER_RETURN_IF_ERROR(MakeDirectory(directory_));
    base::LogWarning(
        "spool_made_again",
        {{"directory", directory_},
         {"reason", "it was removed or moved while the worker ran; results that were in it are not sent"}});
    if (access(directory_.c_str(), R_OK | W_OK | X_OK) == 0) return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("cannot write to the spool directory ", directory_, ": ", std::strerror(errno)));
}

absl::Status Spool::Write(const FinalResult& result) const {
  LUTHIER_RETURN_IF_ERROR(Ready());
  return WriteDurably(directory_, SpoolFileName(result.token), SerializeResult(result));
}

absl::Status Spool::Keep(const FinalResult& result) const {
  const std::string path = directory_ + "/" + SpoolFileName(result.token);
  return access(path.c_str(), F_OK) == 0 ? absl::OkStatus() : Write(result);
}

void Spool::Remove(const FinalResult& result) const {
  unlink((directory_ + "/" + SpoolFileName(result.token)).c_str());
}

void Spool::SetAside(const FinalResult& result) const {
  const std::string path = directory_ + "/" + SpoolFileName(result.token);
  rename(path.c_str(), (path + kAsideSuffix).c_str());
}

std::vector<FinalResult> Spool::Leftovers() const {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(directory_, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (absl::EndsWith(name, kSuffix) && name[0] != '.') names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::vector<FinalResult> results;
  for (const std::string& name : names) {
    const std::string path = directory_ + "/" + name;
    const absl::StatusOr<std::string> text = ReadWhole(path, kMaxSpoolBytes);
    absl::StatusOr<FinalResult> result = text.ok() ? ParseResult(*text) : text.status();
    if (result.ok() && SpoolFileName(result->token) != name)
      result = absl::InvalidArgumentError("holds another result");
    if (result.ok()) {
      results.push_back(*std::move(result));
    } else if (!absl::IsNotFound(text.status())) {  // NOT_FOUND: another worker has just delivered it.
      base::LogWarning("spool_file_unreadable", {{"file", path}, {"error", std::string(result.status().message())}});
      rename(path.c_str(), (path + kAsideSuffix).c_str());
    }
  }
  return results;
}

}  // namespace luthier::worker
