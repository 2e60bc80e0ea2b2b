#ifndef LUTHIER_LIB_DATA_SYNTH_H_
#define LUTHIER_LIB_DATA_SYNTH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/dataset.h"
#include "lib/data/readers.h"
#include "lib/notation/synth_specs.h"

namespace luthier::data {

// Generated rows, so that tests, examples and benchmarks need no download; generated sequences and letters are in
// lib/data/synth_chains.h. A function of the URI alone, on every machine up to rounding in the last bit of exp.
//
//   synth:logistic?rows=500&cols=20&classes=2&seed=1&noise=0.1      SynthSpec
//   synth:images?rows=500&side=28&classes=10&seed=1                 ImageSpec
//   synth:regression?rows=500&cols=20&noise=0.5&seed=1              RegressionSpec
//   synth:matrix?rows=40&cols=30&known=400&rank=2&noise=0.3&seed=1  MatrixSpec
//
// lib/notation/synth_specs.h says what names and specs mean. Errors are those of its parsers; CANCELLED when stopped,
// here and below.
absl::StatusOr<Dataset> SynthesizeRows(const std::string& uri, Task task, const base::StopToken& stop = {});

// `spec` must come from notation::ParseSynth or keep its ranges. Every class has at least two rows.
absl::StatusOr<Dataset> Synthesize(const notation::SynthSpec& spec, const base::StopToken& stop = {});

absl::StatusOr<Dataset> Synthesize(const notation::RegressionSpec& spec, const base::StopToken& stop = {});

absl::StatusOr<Dataset> Synthesize(const notation::MatrixSpec& spec, const base::StopToken& stop = {});

// The bytes of the two files.
struct IdxFiles {
  std::string images, labels;
};
absl::StatusOr<IdxFiles> SynthesizeImages(const notation::ImageSpec& spec, const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_SYNTH_H_
