// Model files: LoadModel refuses, or gives a model that saves itself so that it loads again, and predicts or refuses
// any table. The checksum at a file's end is put right first, so that what is behind it is reached; the bytes as they
// are must be refused, too.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/model/model.h"
#include "tests/fuzz/fuzz.h"

namespace luthier {
namespace {

constexpr absl::string_view kTables[] = {"a,b,label\n1,2,yes\n-3e9,,no\n", "1 1:0.5 2:-1\n0 3:2\n",
                                         "the DT B\ncat NN I\n\nsat VB B\n", "w[0]=the\tw[-1]=cat\nB\tbias\n"};

absl::StatusOr<data::UniqueFd> OpenText(absl::string_view text) {
  data::UniqueFd fd(memfd_create("table", MFD_CLOEXEC));
  fuzz::Must(fd.get() >= 0 && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                 lseek(fd.get(), 0, SEEK_SET) == 0,
             "the machine has memory files");
  return fd;
}

void Use(const model::Model& model) {
  model.Facts();
  for (const absl::string_view table : kTables) {
    model::DataFile file;
    file.path = "table.csv";
    file.open = [table](const std::string&) { return OpenText(table); };
    if (const auto predicted = model.Predict(file); !predicted.ok()) fuzz::MustExplain(predicted.status());
    if (const auto evaluated = model.Evaluate(file); !evaluated.ok()) fuzz::MustExplain(evaluated.status());
  }
}

void MustRefuse(const absl::Status& error) {
  fuzz::Must(absl::IsDataLoss(error) || absl::IsFailedPrecondition(error), "a bad model is lost or of another version",
             error.ToString());
  fuzz::MustExplain(error);
}

}  // namespace

LUTHIER_FUZZ_TARGET(model_file) {
  std::string sealed(input);
  const uint64_t hash = base::Hash64(sealed);
  char raw[8];
  std::memcpy(raw, &hash, sizeof(raw));
  sealed.append(raw, sizeof(raw));
  if (const auto damaged = model::LoadModel(input, "model.bin"); !damaged.ok()) MustRefuse(damaged.status());
  const auto model = model::LoadModel(sealed, "model.bin");
  if (!model.ok()) return MustRefuse(model.status());
  const std::string saved = (*model)->Save();
  const auto again = model::LoadModel(saved, "again.bin");
  fuzz::Must(again.ok(), "a model that was loaded is saved and loads again", again.status().ToString());
  fuzz::Must((*again)->Save() == saved, "a model is saved as it was loaded");
  Use(**model);
}

}  // namespace luthier
