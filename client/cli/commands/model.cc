#include "lib/model/model.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <istream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/objectives/train_model.h"
#include "lib/wire/convert.h"
#include "lib/wire/yaml_spec.h"
#include "worker/disk/durable_file.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The data and settings from which a model is trained, and its objective within the study.
struct Source {
  study::StudySpec spec;
  objectives::TrainRequest request;
};

absl::StatusOr<Source> FromStudy(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  const int64_t number = options.trial > 0 ? options.trial : study.best_trial();
  if (number == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no trial of ", options.study,
        study.front_size() > 0 ? " is the best of several objectives: " : " is COMPLETE yet: ", Summary(study),
        "; name one with --trial"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->GetTrial(options.study, number));
  Source source;
  LUTHIER_ASSIGN_OR_RETURN(source.spec, wire::FromProto(study.spec()));
  LUTHIER_ASSIGN_OR_RETURN(source.request.parameters, wire::FromProto(trial.parameters()));
  source.request.study = options.study;
  source.request.trial = number;
  return source;
}

absl::StatusOr<Source> FromFile(Context& context) {
  Source source;
  LUTHIER_ASSIGN_OR_RETURN(const std::string text, context.ReadFile(context.options().file));
  LUTHIER_ASSIGN_OR_RETURN(const wire::StudyFile file, wire::StudyFile::Parse(text, context.options().file));
  LUTHIER_ASSIGN_OR_RETURN(source.spec, wire::FromProto(file.spec()));
  return source;
}

Json InfoJson(const model::Model& model) {
  const model::ModelInfo& info = model.info();
  Json settings = Json::object();
  for (const auto& [name, value] : info.settings) {
    settings[name] = std::visit([](const auto& v) { return Json(v); }, value);
  }
  Json facts = Json::object();
  for (const auto& [name, value] : model.Facts()) facts[name] = value;
  Json metrics = Json::object();
  for (const auto& [name, value] : info.metrics) metrics[name] = value;
  return {
      {"objective", info.objective}, {"settings", settings}, {"data", info.data},   {"fingerprint", info.fingerprint},
      {"examples", info.examples},   {"study", info.study},  {"trial", info.trial}, {"version", info.version},
      {"outcome", info.outcome},     {"note", info.note},    {"metrics", metrics},  {"facts", facts}};
}

void PrintInfo(Context& context, const model::Model& model) {
  if (context.structured()) return context.Print(InfoJson(model));
  const model::ModelInfo& info = model.info();
  Table table({"name", "value"});
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) table.Add({Cell::Text(name), Cell::Text(value)});
  };
  add("objective", info.objective);
  if (info.trial > 0) add("from", absl::StrCat("trial ", info.trial, " of study ", info.study));
  add("data", info.data);
  add("examples", absl::StrCat(info.examples));
  for (const auto& [name, value] : model.Facts()) add(name, value);
  add("training", info.outcome == "limit" ? "ended at its limit, not converged" : info.outcome);
  add("note", info.note);
  for (const auto& [name, value] : info.metrics) add(name, ShortNumber(value));
  add("settings", study::FormatParameters(info.settings));
  add("fingerprint", info.fingerprint);
  add("version", info.version);
  context.Print(table);
}

void PrintNotes(Context& context, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) context.err() << "note: " << Printable(note) << "\n";
}

// Returns what `in` gives as a file without a name: readers look at its beginning before they read it.
absl::StatusOr<std::shared_ptr<std::FILE>> Spool(std::istream& in) {
  const std::shared_ptr<std::FILE> file(std::tmpfile(), [](std::FILE* f) {
    if (f != nullptr) std::fclose(f);
  });
  const auto failed = [] { return absl::ErrnoToStatus(errno, "standard input cannot be kept in a temporary file"); };
  if (file == nullptr) return failed();
  std::string chunk(size_t{1} << 16, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    const auto size = static_cast<size_t>(in.gcount());
    if (std::fwrite(chunk.data(), 1, size, file.get()) != size) return failed();
  }
  if (std::fflush(file.get()) != 0) return failed();
  return file;
}

absl::StatusOr<model::DataFile> DataOf(Context& context) {
  const Options& options = context.options();
  model::DataFile data;
  data.path = options.data;
  data.read.label = options.label;
  data.read.labels_file = options.labels_file;
  if (options.data_format == "csv") data.read.format = data::Format::kCsv;
  if (options.data_format == "libsvm") data.read.format = data::Format::kLibsvm;
  if (options.data_format == "idx") data.read.format = data::Format::kIdx;
  if (options.header == "yes") data.read.header = data::Header::kYes;
  if (options.header == "no") data.read.header = data::Header::kNo;
  if (options.data != "-") return data;
  LUTHIER_ASSIGN_OR_RETURN(const std::shared_ptr<std::FILE> spooled, Spool(context.in()));
  data.path = "standard input";
  data.open = [name = data.path, spooled](const std::string& path) -> absl::StatusOr<data::UniqueFd> {
    if (path != name) return model::OpenUserFile(path);  // The path is that of the labels of images.
    const int fd = dup(fileno(spooled.get()));
    if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0) return absl::ErrnoToStatus(errno, name);
    return data::UniqueFd(fd);
  };
  return data;
}

Json NumberJson(double value) {
  return std::isfinite(value) ? Json(value) : Json(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

}  // namespace

absl::StatusOr<int> ModelTrain(Context& context) {
  const Options& options = context.options();
  if (options.study.empty() == options.file.empty()) {
    return UsageError("--study", "name a study, or a study file with --file; one of the two");
  }
  if (options.trial > 0 && options.study.empty()) return UsageError("--trial", "needs --study");
  Source source;
  if (options.study.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(source, FromFile(context));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(source, FromStudy(context));
  }
  const auto* builtin = std::get_if<study::BuiltinObjective>(&source.spec.objective);
  if (builtin == nullptr) {
    return absl::FailedPreconditionError(
        "only builtin objectives train models here; this study's objective is another program");
  }
  source.request.objective = *builtin;
  LUTHIER_ASSIGN_OR_RETURN(const auto settings, ParsePairs("--set", options.settings));
  for (const auto& [name, text] : settings) source.request.parameters[name] = wire::ParseValue(text);
  const fs::path out = options.out;
  std::error_code error;
  const std::string directory = out.has_parent_path() ? out.parent_path().string() : ".";
  if (!fs::is_directory(directory, error)) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": is no directory to write ", options.out, " to"));
  }
  if (out.filename().empty() || fs::is_directory(out, error)) {
    return UsageError("--out", absl::StrCat(base::Quote(options.out), " names no file"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const data::DataRoot root, data::DataRoot::Open(options.data_root));
  context.Disconnect();  // Training may take longer than the database should stay open.
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model,
                           objectives::TrainModel(source.request, &root, {}));
  const absl::Status written = worker::WriteDurably(directory, out.filename().string(), model->Save());
  if (!written.ok()) return absl::FailedPreconditionError(std::string(written.message()));
  if (model->info().outcome == "limit") {
    context.err() << "note: training ended at its limit (max_iterations or max_passes) before it converged\n";
  }
  PrintInfo(context, *model);
  context.err() << "wrote " << options.out << "\n";
  return kExitDone;
}

absl::StatusOr<int> ModelShow(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, model::ReadModelFile(context.options().file));
  PrintInfo(context, *model);
  return kExitDone;
}

absl::StatusOr<int> ModelPredict(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, model::ReadModelFile(context.options().file));
  LUTHIER_ASSIGN_OR_RETURN(const model::DataFile data, DataOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const model::Predictions predictions, model->Predict(data));
  PrintNotes(context, predictions.notes);
  const bool sequences = !predictions.sequence_start.empty();
  if (context.structured()) {
    Json list = Json::array();
    if (sequences) {
      for (size_t i = 0; i + 1 < predictions.sequence_start.size(); ++i) {
        Json labels = Json::array();
        for (int64_t t = predictions.sequence_start[i]; t < predictions.sequence_start[i + 1]; ++t) {
          labels.push_back(predictions.label[static_cast<size_t>(t)]);
        }
        list.push_back(std::move(labels));
      }
    } else {
      for (size_t i = 0; i < predictions.label.size(); ++i) {
        Json row = {{"label", predictions.label[i]}};
        for (size_t k = 0; k < predictions.numbers.size(); ++k) {
          row[predictions.numbers[k]] = NumberJson(predictions.value[i][k]);
        }
        list.push_back(std::move(row));
      }
    }
    context.Print(list);
    return kExitDone;
  }
  if (sequences && context.shown()) {
    context.out() << predictions.text;  // Written as the file has it, for programs that read such columns.
    return kExitDone;
  }
  std::vector<Column> columns = {sequences ? "sequence" : "row"};
  if (sequences) columns.emplace_back("token");
  columns.emplace_back("label");
  columns.insert(columns.end(), predictions.numbers.begin(), predictions.numbers.end());
  Table table(columns);
  size_t sequence = 0;
  for (size_t i = 0; i < predictions.label.size(); ++i) {
    std::vector<Cell> row;
    if (sequences) {
      while (predictions.sequence_start[sequence + 1] <= static_cast<int64_t>(i)) ++sequence;
      row.push_back(Cell::Integer(static_cast<int64_t>(sequence) + 1));
      row.push_back(Cell::Integer(static_cast<int64_t>(i) - predictions.sequence_start[sequence] + 1));
    } else {
      row.push_back(Cell::Integer(static_cast<int64_t>(i) + 1));
    }
    row.push_back(Cell::Text(predictions.label[i]));
    for (size_t k = 0; k < predictions.numbers.size(); ++k) row.push_back(Cell::Number(predictions.value[i][k]));
    table.Add(std::move(row));
  }
  context.Print(table);
  return kExitDone;
}

absl::StatusOr<int> ModelEvaluate(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, model::ReadModelFile(context.options().file));
  LUTHIER_ASSIGN_OR_RETURN(const model::DataFile data, DataOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const model::Evaluation evaluation, model->Evaluate(data));
  PrintNotes(context, evaluation.notes);
  if (context.structured()) {
    Json metrics = Json::object();
    for (const auto& [name, value] : evaluation.metrics) metrics[name] = NumberJson(value);
    Json parts = Json::array();
    for (const model::Evaluation::Part& part : evaluation.parts) {
      parts.push_back({{"name", part.name},
                       {"precision", part.precision},
                       {"recall", part.recall},
                       {"f1", part.f1},
                       {"count", part.count}});
    }
    context.Print(Json{{"metrics", metrics}, {"parts", parts}});
    return kExitDone;
  }
  // The table has measures of all rows, then those of classes or types of segments.
  Table table({"of", "measure", "value"});
  for (const auto& [name, value] : evaluation.metrics) {
    table.Add({Cell::Text("all"), Cell::Text(name), Cell::Number(value)});
  }
  for (const model::Evaluation::Part& part : evaluation.parts) {
    const auto add = [&](const char* measure, double value) {
      table.Add({Cell::Text(part.name), Cell::Text(measure), Cell::Number(value)});
    };
    add("precision", part.precision);
    add("recall", part.recall);
    add("f1", part.f1);
    add("count", static_cast<double>(part.count));
  }
  context.Print(table);
  return kExitDone;
}

}  // namespace luthier::cli
