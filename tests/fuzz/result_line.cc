// What a program writes about its progress: a metric's name, a newline, then the program's output. And what is searched
// in it by patterns that a user wrote.
#include "worker/objectives/result_line.h"

#include "absl/strings/str_cat.h"
#include "lib/study/output_pattern.h"
#include "lib/wire/convert.h"
#include "tests/fuzz/fuzz.h"
#include "worker/objectives/output.h"

namespace luthier {

LUTHIER_FUZZ_TARGET(result_line) {
  fuzz::Input parts(input);
  const std::string metric(parts.Line());
  const absl::string_view text = parts.rest();
  worker::ResultFinder finder(metric);
  worker::LineSplitter lines(1 << 12, [&](const worker::TextLine& line) {
    const worker::LineContent found = finder.Add(line);
    const bool whole = found.line.measurement.metrics.contains(metric);
    fuzz::Must(found.kind != worker::LineContent::Kind::kResult || whole, "what is found has the study's metric");
  });
  lines.Add(text);
  lines.Finish();
  const auto line = worker::ParseResultLine(text, metric);
  if (line.ok()) {
    fuzz::Must(line->checkpoint.size() <= worker::kMaxCheckpointBytes, "a checkpoint's name is bounded");
    fuzz::Must(line->measurement.metrics.size() <= worker::kMaxMetrics, "a line has at most kMaxMetrics metrics");
    fuzz::Must(line->measurement.metrics.empty() || line->measurement.metrics.contains(metric),
               "a line with metrics has the study's");
    for (const std::string& note : line->notes) fuzz::MustExplain(absl::UnknownError(note));
    // It can be sent: the message is one that protobuf writes and reads.
    std::string bytes;
    fuzz::Must(wire::ToProto(line->measurement).SerializeToString(&bytes), "a line's measurement can be sent");
    v1::Measurement read;
    fuzz::Must(read.ParseFromString(bytes), "a line's measurement is a message that can be read");
  } else {
    fuzz::Must(absl::IsInvalidArgument(line.status()), "a bad line is an invalid argument", line.status().ToString());
    fuzz::MustExplain(line.status());
  }
  worker::ParseNumber(text);
  if (const auto pattern = study::OutputPattern::Compile(metric); pattern.ok()) {
    pattern->LastMatch(text);
    pattern->LastValue(text);
  } else {
    fuzz::MustExplain(pattern.status());
  }
}

}  // namespace luthier
