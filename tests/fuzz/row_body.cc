// Bodies of rows, as record_codec.h and legacy_records.h read them: DATA_LOSS, or a record that is written and read
// back equal. The first byte says of what the row is.
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/storage/legacy_records.h"
#include "server/storage/record_codec.h"
#include "tests/fuzz/fuzz.h"

namespace luthier {
namespace {

void MustBeLost(const absl::Status& error) {
  fuzz::Must(absl::IsDataLoss(error), "a row that can't be read is DATA_LOSS", error.ToString());
  fuzz::MustExplain(error);
}

// `first`: what the encoder writes of a record that was decoded. It decodes, to what is encoded the same.
template <typename Decoder, typename Encoder>
void CheckRound(const std::string& first, Decoder decode, Encoder encode) {
  const auto again = decode(first);
  fuzz::Must(again.ok(), "what the encoder writes can be decoded", again.status().ToString());
  fuzz::Must(encode(*again) == first, "a record is written and read back equal", absl::CHexEscape(first));
}

void CheckTrial(absl::string_view body) {
  const auto trial = storage::DecodeTrialBody(body);
  const auto asks = storage::CountAsks(body);
  if (!trial.ok()) return MustBeLost(trial.status());
  const std::string first = storage::EncodeTrialBody(*trial);
  CheckRound(first, storage::DecodeTrialBody, storage::EncodeTrialBody);
  fuzz::Must(asks.ok(), "a trial that can be read has its asks", asks.status().ToString());
  const int64_t own = trial->trial.provenance.ask_index ? 1 : 0;
  fuzz::Must(*asks == own + static_cast<int64_t>(trial->trial.promotions.size()), "asks are counted as they are read",
             absl::CHexEscape(body));
}

}  // namespace

LUTHIER_FUZZ_TARGET(row_body) {
  fuzz::Input parts(input);
  const int kind = parts.Byte() % 7;
  const absl::string_view body = parts.rest();
  storage::Event event;
  switch (kind) {
    case 0:
      return CheckTrial(body);
    case 1:
      if (const auto asks = storage::CountAsks(body); !asks.ok()) MustBeLost(asks.status());
      return;
    case 2: {
      const auto measurement = storage::DecodeMeasurement(body);
      if (!measurement.ok()) return MustBeLost(measurement.status());
      return CheckRound(storage::EncodeMeasurement(*measurement), storage::DecodeMeasurement,
                        storage::EncodeMeasurement);
    }
    case 3: {
      storage::DecodeEventFacts(body, &event);
      storage::Event again;
      storage::DecodeEventFacts(storage::EncodeEventFacts(event), &again);
      return fuzz::Must(again == event, "an event's facts are written and read back equal");
    }
    case 4: {
      const auto reply = storage::DecodeReply(body);
      if (!reply.ok()) return MustBeLost(reply.status());
      return CheckRound(storage::EncodeReply(*reply), storage::DecodeReply, storage::EncodeReply);
    }
    case 5: {
      const auto spec = storage::DecodeSpec(body);
      if (!spec.ok()) return MustBeLost(spec.status());
      const auto first = storage::EncodeSpec(*spec);
      fuzz::Must(first.ok(), "a spec that was read can be written", first.status().ToString());
      const auto again = storage::DecodeSpec(*first);
      return fuzz::Must(again.ok() && *again == *spec, "a spec is written and read back equal");
    }
    default:
      event.type = storage::EventType::kMeasurement;
      event.detail = std::string(body);
      storage::ReadLegacyEvent(&event);
      event.type = storage::EventType::kTrialPromoted;
      storage::ReadLegacyEvent(&event);
      if (const auto reply = storage::ParseLegacyReply(body); !reply.ok()) MustBeLost(reply.status());
  }
}

}  // namespace luthier
