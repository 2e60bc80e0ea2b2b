#include "lib/crf/features/chain_data.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::crf {

int64_t ChainData::longest() const {
  int64_t longest = 0;
  for (int64_t i = 0; i < sequences(); ++i) longest = std::max(longest, length(i));
  return longest;
}

ChainData Select(const ChainData& data, const std::vector<int32_t>& rows) {
  ChainData part;
  part.name = data.name;
  part.attributes = data.attributes;
  part.label_names = data.label_names;
  part.unknown_names = data.unknown_names;
  for (const int32_t i : rows) {
    const auto begin = static_cast<size_t>(data.sequence_start[static_cast<size_t>(i)]);
    const auto end = static_cast<size_t>(data.sequence_start[static_cast<size_t>(i) + 1]);
    for (size_t t = begin; t < end; ++t) {
      part.attribute.insert(part.attribute.end(), data.attribute.begin() + data.token_start[t],
                            data.attribute.begin() + data.token_start[t + 1]);
      if (!data.value.empty()) {
        part.value.insert(part.value.end(), data.value.begin() + data.token_start[t],
                          data.value.begin() + data.token_start[t + 1]);
      }
      part.token_start.push_back(static_cast<int64_t>(part.attribute.size()));
      part.label.push_back(data.label[t]);
    }
    part.sequence_start.push_back(part.tokens());
  }
  return part;
}

absl::Status CheckChainData(const ChainData& data) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(data.name, ": ", what));
  };
  if (data.sequences() < 1) return error("there are no sequences");
  if (data.labels() < 2) return error("there are fewer than two labels: nothing is to be learned");
  if (data.token_start.size() != data.label.size() + 1 || data.sequence_start.back() != data.tokens() ||
      data.token_start.back() != static_cast<int64_t>(data.attribute.size())) {
    return error("sizes do not agree");
  }
  if (!data.value.empty() && data.value.size() != data.attribute.size()) return error("sizes do not agree");
  for (const double value : data.value) {
    if (!std::isfinite(value)) return error("a value is not finite");
  }
  for (const int32_t label : data.label) {
    if (label < 0 || label >= data.labels()) return error(absl::StrCat("label ", label, " does not exist"));
  }
  std::vector<int64_t> last(static_cast<size_t>(data.attributes), -1);
  for (size_t t = 0; t + 1 < data.token_start.size(); ++t) {
    if (data.token_start[t + 1] < data.token_start[t]) return error("sizes do not agree");
    for (int64_t e = data.token_start[t]; e < data.token_start[t + 1]; ++e) {
      const int32_t a = data.attribute[static_cast<size_t>(e)];
      if (a < 0 || a >= data.attributes) return error(absl::StrCat("attribute ", a, " does not exist"));
      if (last[static_cast<size_t>(a)] == static_cast<int64_t>(t)) return error("an attribute is twice in a token");
      last[static_cast<size_t>(a)] = static_cast<int64_t>(t);
    }
  }
  for (int64_t i = 0; i < data.sequences(); ++i) {
    if (data.length(i) < 1) return error("a sequence has no tokens");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Fingerprint(const ChainData& data, const base::StopToken& stop) {
  std::string head = absl::StrCat("chains ", data.attributes, " ", data.labels(), " ", data.sequences(), " ");
  for (const std::string& name : data.label_names) absl::StrAppend(&head, name.size(), ":", name);
  base::Sha256Parts hash;
  hash.Add(head);
  const auto append = [&](const auto& numbers) {
    constexpr size_t kSize = sizeof(numbers[0]);
    return base::InPieces(static_cast<int64_t>(numbers.size()), kSize, stop, [&](int64_t begin, int64_t end) {
      hash.Add({reinterpret_cast<const char*>(numbers.data() + begin), static_cast<size_t>(end - begin) * kSize});
    });
  };
  LUTHIER_RETURN_IF_ERROR(append(data.sequence_start));
  LUTHIER_RETURN_IF_ERROR(append(data.token_start));
  LUTHIER_RETURN_IF_ERROR(append(data.attribute));
  LUTHIER_RETURN_IF_ERROR(append(data.value));
  LUTHIER_RETURN_IF_ERROR(append(data.label));
  return std::move(hash).Hex();
}

}  // namespace luthier::crf
