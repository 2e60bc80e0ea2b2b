#include "lib/learn/readers.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/learn/synth.h"

namespace luthier::learn {
namespace {

// A source whose beginning has been looked at.
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
    if (!ParseNumber(words[0], &number)) return Format::kCsv;
    if (words.size() == 1) return Format::kLibsvm;
    const std::vector<absl::string_view> pair = absl::StrSplit(words[1], ':');
    return pair.size() == 2 && ParseNumber(pair[0], &number) && ParseNumber(pair[1], &number) ? Format::kLibsvm
                                                                                              : Format::kCsv;
  }
  return Format::kCsv;
}

}  // namespace

absl::StatusOr<Dataset> ReadDataset(UniqueFd fd, const std::string& name, const ReadOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenBytes(std::move(fd), name));
  Format format = options.format == Format::kAuto ? FormatByName(name) : options.format;
  if (format == Format::kAuto) {
    std::string head;
    LUTHIER_ASSIGN_OR_RETURN(const bool any, source->Append(&head));
    if (!any) return absl::InvalidArgumentError(absl::StrCat(name, ": is empty"));
    format = FormatByContent(head);
    source = std::make_unique<Replayed>(std::move(head), std::move(source));
  }
  LineReader lines(std::move(source), name, options.limits);
  if (format == Format::kLibsvm) {
    if (!options.label.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": a label column is named, but LIBSVM rows begin with their label"));
    }
    return ReadLibsvm(lines);
  }
  return ReadCsv(lines, options);
}

absl::StatusOr<Dataset> LoadDataset(const std::string& data, const ReadOptions& options, const DataRoot* root) {
  if (absl::StartsWith(data, "synth:")) {
    LUTHIER_ASSIGN_OR_RETURN(const SynthSpec spec, ParseSynth(data));
    return Synthesize(spec);
  }
  if (root == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set ", base::Quote(data), " cannot be opened: no data root is set; only synth:… data are available"));
  }
  LUTHIER_ASSIGN_OR_RETURN(UniqueFd fd, root->OpenFile(data));
  return ReadDataset(std::move(fd), data, options);
}

}  // namespace luthier::learn
