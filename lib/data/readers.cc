#include "lib/data/readers.h"

#include <fcntl.h>

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/data/synth.h"
#include "lib/notation/number.h"
#include "lib/notation/synth_uri.h"

namespace luthier::data {
namespace {

// A source whose beginning has been read ahead.
class Replayed final : public ByteSource {
 public:
  Replayed(std::string head, std::unique_ptr<ByteSource> rest) : head_(std::move(head)), rest_(std::move(rest)) {}
  absl::StatusOr<bool> Append(std::string* out) override {
    if (head_.empty()) return rest_->Append(out);
    out->append(head_);
    head_.clear();
    return true;
  }

 private:
  std::string head_;
  std::unique_ptr<ByteSource> rest_;
};

Format FormatByName(const std::string& name) {
  std::string lower = absl::AsciiStrToLower(name);
  for (const char* packed : {".gz", ".xz"}) {
    if (absl::EndsWith(lower, packed)) {
      lower.resize(lower.size() - 3);
      break;
    }
  }
  for (const char* end : {".csv", ".tsv"}) {
    if (absl::EndsWith(lower, end)) return Format::kCsv;
  }
  if (absl::EndsWith(lower, "idx3-ubyte") || absl::EndsWith(lower, ".idx3")) return Format::kIdx;
  for (const char* end : {".svm", ".libsvm", ".svmlight"}) {
    if (absl::EndsWith(lower, end)) return Format::kLibsvm;
  }
  return Format::kAuto;
}

Format FormatByContent(absl::string_view head) {
  for (absl::string_view line : absl::StrSplit(head, '\n')) {
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(absl::ByAnyChar(" \t"), 2), absl::SkipEmpty());
    double number = 0.0;
    const auto is_entry = [&number](absl::string_view word) {
      const std::vector<absl::string_view> pair = absl::StrSplit(word, ':');
      return pair.size() == 2 && notation::ParseNumber(pair[0], &number) && notation::ParseNumber(pair[1], &number);
    };
    if (is_entry(words[0])) return Format::kLibsvm;  // Without a label.
    if (!notation::ParseNumber(words[0], &number)) return Format::kCsv;
    return words.size() == 1 || is_entry(words[1]) ? Format::kLibsvm : Format::kCsv;
  }
  return Format::kCsv;
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenSource(FileOpener open, const std::string& name) {
  LUTHIER_ASSIGN_OR_RETURN(UniqueFd fd, open(name));
  return OpenBytes(std::move(fd), name);
}

// Returns the name of the labels' file that goes with images; "" if nothing says where it is.
std::string LabelsName(const std::string& images, const ReadOptions& options) {
  if (!options.labels_file.empty()) return options.labels_file;
  const std::string name = absl::StrReplaceAll(images, {{"images-idx3", "labels-idx1"}});
  return name == images ? std::string() : name;
}

// Reads images and their labels, if there are any; labels may be missing if `wanted` is given.
absl::StatusOr<RawRows> ReadImages(FileOpener open, const std::string& name, ByteSource& images,
                                   const ReadOptions& options, const WantedColumns* wanted) {
  const std::string labels_name = LabelsName(name, options);
  if (labels_name.empty() && wanted == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        ": where are its labels? Name their file in option labels_file, or call the images ...images-idx3-ubyte"));
  }
  std::unique_ptr<ByteSource> labels;
  if (!labels_name.empty()) {
    absl::StatusOr<std::unique_ptr<ByteSource>> opened = OpenSource(open, labels_name);
    if (opened.ok()) {
      labels = *std::move(opened);
    } else if (wanted == nullptr || !absl::IsNotFound(opened.status())) {
      return opened.status();
    }
  }
  LUTHIER_ASSIGN_OR_RETURN(RawRows rows, ReadIdx(images, name, labels.get(), labels_name, options.limits.stop));
  if (wanted != nullptr && rows.x.cols != wanted->cols) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has ", rows.x.cols, " pixels an image; the model takes ", wanted->cols, " features"));
  }
  return rows;
}

absl::Status NoKeyColumn(const std::string& name, const ReadOptions& options) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": there is no column ", base::Quote(options.key_column),
                                                 ": only CSV files with a header have columns by name"));
}

absl::StatusOr<RawRows> ReadRows(FileOpener open, const std::string& name, const ReadOptions& options,
                                 const WantedColumns* wanted) {
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenSource(open, name));
  Format format = options.format == Format::kAuto ? FormatByName(name) : options.format;
  if (format == Format::kAuto) {
    std::string head;
    LUTHIER_ASSIGN_OR_RETURN(const bool any, source->Append(&head));
    if (!any) return absl::InvalidArgumentError(absl::StrCat(name, ": is empty"));
    format = FormatByContent(head);
    source = std::make_unique<Replayed>(std::move(head), std::move(source));
  }
  if (format != Format::kCsv && !options.key_column.empty()) return NoKeyColumn(name, options);
  if (format == Format::kIdx) return ReadImages(open, name, *source, options, wanted);
  LineReader lines(std::move(source), name, options.limits);
  if (format == Format::kLibsvm) {
    if (!options.label.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": a label column is named, but LIBSVM rows begin with their label"));
    }
    return ReadLibsvm(lines, wanted);
  }
  return ReadCsv(lines, options, wanted);
}

constexpr char kCacheKind[] = "dataset/2";

void Save(const LoadedDataset& loaded, base::CheckpointWriter* writer) {
  const Dataset& d = loaded.dataset;
  writer->Text(loaded.fingerprint);
  writer->U64(static_cast<uint64_t>(d.x.cols));
  writer->Array(d.x.row_start);
  writer->Array(d.x.column);
  writer->Array(d.x.value);
  writer->Array(d.label);
  writer->Texts(d.classes);
  writer->Texts(d.features);
  writer->Text(d.label_name);
  writer->Array(d.target);
  writer->Array(d.key);
  writer->U64(d.open_columns ? 1 : 0);
}

// Returns DATA_LOSS if the bytes do not fit, CANCELLED if the reader was stopped.
absl::Status Load(base::CheckpointReader* reader, LoadedDataset* loaded) {
  Dataset& d = loaded->dataset;
  loaded->fingerprint = reader->Text();
  d.x.cols = static_cast<int32_t>(reader->U64());
  d.x.row_start = reader->Array<int64_t>();
  d.x.column = reader->Array<int32_t>();
  d.x.value = reader->Array<double>();
  d.label = reader->Array<int32_t>();
  d.classes = reader->Texts();
  d.features = reader->Texts();
  d.label_name = reader->Text();
  d.target = reader->Array<double>();
  d.key = reader->Array<int32_t>();
  d.open_columns = reader->U64() != 0;
  d.x.rows = static_cast<int64_t>(d.x.row_start.size()) - 1;
  LUTHIER_RETURN_IF_ERROR(reader->status());
  if (!reader->Done() || d.x.rows < 1 || d.x.row_start.back() != d.x.nonzeros() ||
      d.x.column.size() != d.x.value.size() ||
      static_cast<int64_t>(d.regression() ? d.target.size() : d.label.size()) != d.x.rows ||
      (!d.regression() && d.classes.size() < 2) || (!d.key.empty() && static_cast<int64_t>(d.key.size()) != d.x.rows)) {
    return absl::DataLossError("checkpoint: its contents are no data set");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dataset> ToDataset(RawRows rows, Task task, const base::StopToken& stop) {
  Dataset dataset;
  dataset.name = std::move(rows.name);
  dataset.x = std::move(rows.x);
  dataset.features = std::move(rows.features);
  dataset.label_name = std::move(rows.label_name);
  dataset.open_columns = rows.open_columns;
  if (task == Task::kRegression) {
    LUTHIER_RETURN_IF_ERROR(AssignTargets(rows.label, &dataset, stop));
  } else {
    LUTHIER_RETURN_IF_ERROR(AssignClasses(rows.label, &dataset, stop));
  }
  if (!rows.key.empty()) LUTHIER_RETURN_IF_ERROR(AssignKeys(rows.key, &dataset, stop));
  return dataset;
}

absl::StatusOr<RawRows> ReadRowsFor(FileOpener open, const std::string& name, const ReadOptions& options,
                                    const WantedColumns& wanted) {
  LUTHIER_ASSIGN_OR_RETURN(RawRows rows, ReadRows(open, name, options, &wanted));
  if (rows.x.rows == 0) return absl::InvalidArgumentError(absl::StrCat(name, ": has no rows of data"));
  return rows;
}

absl::StatusOr<Dataset> ReadDataset(FileOpener open, const std::string& name, const ReadOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(RawRows rows, ReadRows(open, name, options, nullptr));
  return ToDataset(std::move(rows), options.task, options.limits.stop);
}

absl::StatusOr<Dataset> LoadDataset(const std::string& data, const ReadOptions& options, const DataRoot* root) {
  if (notation::IsSynth(data)) {
    if (!options.key_column.empty()) return NoKeyColumn(data, options);
    return SynthesizeRows(data, options.task, options.limits.stop);
  }
  if (root == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set ", base::Quote(data), " cannot be opened: no data root is set; only synth:… data are available"));
  }
  return ReadDataset([root](const std::string& name) { return root->OpenFile(name); }, data, options);
}

absl::StatusOr<LoadedDataset> LoadDataset(const std::string& data, const ReadOptions& options, const DataRoot* root,
                                          const DataCache* cache) {
  const base::StopToken& stop = options.limits.stop;
  LoadedDataset loaded;
  UniqueFd fd;
  std::optional<DataCache::Source> source;
  UniqueFd labels_fd;
  std::string labels;  // With images: the state of the labels' file.
  if (cache != nullptr && root != nullptr && !notation::IsSynth(data)) {
    LUTHIER_ASSIGN_OR_RETURN(fd, root->OpenFile(data));
    source = cache->Look(fd.get());
    if (options.format == Format::kIdx || FormatByName(data) == Format::kIdx) {
      absl::StatusOr<UniqueFd> opened = root->OpenFile(LabelsName(data, options));
      if (opened.ok()) {
        labels_fd = *std::move(opened);
        labels = cache->StateOf(labels_fd.get());
      }
      if (labels.empty()) source.reset();
    }
  }
  const std::string key = absl::StrCat(
      kCacheKind, "\n", data, "\n", static_cast<int>(options.format), " ", static_cast<int>(options.header), " ",
      options.limits.max_line_bytes, " ", options.limits.max_total_bytes, " ", static_cast<int>(options.task), "\n",
      options.label, "\n", options.key_column, "\n", options.labels_file, "\n", labels);
  if (source) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<DataCache::Entry> entry, cache->Find(key, fd.get(), *source, stop));
    if (entry) {
      const absl::Status status = Load(&entry->reader(), &loaded);
      if (absl::IsCancelled(status)) return status;
      if (status.ok()) {
        loaded.dataset.name = data;
        return loaded;
      }
    }
    loaded = LoadedDataset();
  }
  if (source) {
    // Opens the very file that was looked at, whatever has its name by now.
    const auto open = [&](const std::string& name) {
      return absl::StatusOr<UniqueFd>(fcntl((name == data ? fd : labels_fd).get(), F_DUPFD_CLOEXEC, 0));
    };
    LUTHIER_ASSIGN_OR_RETURN(loaded.dataset, ReadDataset(open, data, options));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(loaded.dataset, LoadDataset(data, options, root));
  }
  LUTHIER_ASSIGN_OR_RETURN(loaded.fingerprint, Fingerprint(loaded.dataset, stop));
  if (source) {
    const auto save = [&](base::CheckpointWriter* writer) { Save(loaded, writer); };
    LUTHIER_RETURN_IF_ERROR(cache->Put(key, fd.get(), *source, save, stop));
  }
  return loaded;
}

}  // namespace luthier::data
