#include "lib/wire/convert_algorithm.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/wire/old_options.h"

namespace luthier::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// --- One list of each algorithm's options. visit(name, option): the name is that in the API's message of the algorithm
// or, if the message has no such field, in its `expert`. A new option is one line here. ---

template <typename Visit>
void VisitOptions(study::AutoOptions& o, Visit visit) {
  visit("noisy", o.noisy);
  visit("rules", o.rules);
}

template <typename Visit>
void VisitOptions(study::BoOptions& o, Visit visit) {
  visit("initial_points", o.initial_points);
  visit("acquisition", o.acquisition);
  visit("noisy", o.noisy);
  visit("explore_every", o.explore_every);
  visit("gradients", o.gradients);
  visit("kernel", o.kernel);
  visit("warp", o.warp);
  visit("prior", o.prior);
  visit("maximizer", o.maximizer);
  visit("pending", o.pending);
  visit("trust_region", o.trust_region);
  visit("exploration", o.exploration);
  visit("lipschitz", o.lipschitz);
  visit("growth", o.growth);
  visit("lipschitz_constant", o.lipschitz_constant);
  visit("beta_schedule", o.beta_schedule);
  visit("beta", o.beta);
  visit("improvement", o.improvement);
  visit("sampler", o.sampler);
  visit("hyperparameters", o.hyperparameters);
  visit("count_history", o.count_history);
  visit("rules", o.rules);
}

template <typename Visit>
void VisitOptions(study::RandomOptions&, Visit) {}

template <typename Visit>
void VisitOptions(study::SobolOptions& o, Visit visit) {
  visit("scramble", o.scramble);
}

template <typename Visit>
void VisitOptions(study::HaltonOptions& o, Visit visit) {
  visit("scramble", o.scramble);
}

template <typename Visit>
void VisitOptions(study::GridOptions& o, Visit visit) {
  visit("levels", o.levels);
  visit("shuffle", o.shuffle);
  visit("centres", o.centres);
}

template <typename Visit>
void VisitOptions(study::CmaEsOptions& o, Visit visit) {
  visit("population", o.population);
  visit("initial_sigma", o.initial_sigma);
}

template <typename Visit>
void VisitOptions(study::Nsga2Options& o, Visit visit) {
  visit("population", o.population);
}

template <typename Visit>
void VisitOptions(study::TpeOptions& o, Visit visit) {
  visit("startup_trials", o.startup_trials);
  visit("candidates", o.candidates);
  visit("multivariate", o.multivariate);
}

template <typename Visit>
void VisitOptions(study::HoagOptions& o, Visit visit) {
  visit("chains", o.chains);
  visit("sequence", o.sequence);
  visit("first_tolerance", o.first_tolerance);
  visit("step_rule", o.step_rule);
  visit("stop", o.stop);
}

template <typename Visit>
void VisitOptions(study::SuccessiveHalvingOptions& o, Visit visit) {
  visit("eta", o.eta);
  visit("trials", o.trials);
}

template <typename Visit>
void VisitOptions(study::HyperbandOptions& o, Visit visit) {
  visit("eta", o.eta);
}

template <typename Visit>
void VisitOptions(study::AshaOptions& o, Visit visit) {
  visit("eta", o.eta);
  visit("variant", o.variant);
}

template <typename Visit>
void VisitOptions(study::HarmonicaOptions& o, Visit visit) {
  visit("samples", o.samples);
  visit("stages", o.stages);
  visit("stage_resource", o.stage_resource);
  visit("degree", o.degree);
  visit("terms", o.terms);
  visit("restrictions", o.restrictions);
  visit("float_bits", o.float_bits);
}

const FieldDescriptor* FieldOf(const Message& message, const char* name) {
  return message.GetDescriptor()->FindFieldByName(name);
}

// Writes options into `message`, that of an algorithm.
class OptionWriter {
 public:
  explicit OptionWriter(Message* message) : message_(message) {}

  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value.has_value()) (*this)(name, *value);
  }
  template <typename T>
  void operator()(const char* name, const T& value) const {
    Message* owner = message_;
    if (FieldOf(*owner, name) == nullptr) {
      owner = owner->GetReflection()->MutableMessage(owner, FieldOf(*owner, "expert"));
    }
    const FieldDescriptor* const field = FieldOf(*owner, name);
    if constexpr (std::is_enum_v<T>) {
      owner->GetReflection()->SetEnumValue(owner, field, static_cast<int>(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      owner->GetReflection()->SetBool(owner, field, value);
    } else if constexpr (std::is_same_v<T, int32_t>) {
      owner->GetReflection()->SetInt32(owner, field, value);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      owner->GetReflection()->SetInt64(owner, field, value);
    } else {
      owner->GetReflection()->SetDouble(owner, field, value);
    }
  }

 private:
  Message* message_;
};

// Reads options from `message`, that of an algorithm. Options that it does not have keep their defaults.
class OptionReader {
 public:
  OptionReader(const Message& message, std::string path, base::Violations* violations)
      : message_(message), path_(std::move(path)), violations_(violations) {}

  template <typename T>
  void operator()(const char* name, std::optional<T>& value) const {
    T said = T();
    if (Read(name, said)) value = said;
  }
  template <typename T>
  void operator()(const char* name, T& value) const {
    Read(name, value);
  }

 private:
  // Returns true if the option is there.
  template <typename T>
  bool Read(const char* name, T& value) const {
    const Message* owner = &message_;
    std::string path = path_;
    if (FieldOf(*owner, name) == nullptr) {
      owner = &owner->GetReflection()->GetMessage(*owner, FieldOf(*owner, "expert"));
      path += ".expert";
    }
    const FieldDescriptor* const field = FieldOf(*owner, name);
    if (!owner->GetReflection()->HasField(*owner, field)) return false;
    if constexpr (std::is_enum_v<T>) {
      const int number = owner->GetReflection()->GetEnumValue(*owner, field);
      if (field->enum_type()->FindValueByNumber(number) != nullptr) {
        value = static_cast<T>(number);
      } else {
        violations_->Add(absl::StrCat(path, ".", name), absl::StrCat("has the unknown value ", number, "; use one of ",
                                                                     ValueNames(*field->enum_type())));
      }
    } else if constexpr (std::is_same_v<T, bool>) {
      value = owner->GetReflection()->GetBool(*owner, field);
    } else if constexpr (std::is_same_v<T, int32_t>) {
      value = owner->GetReflection()->GetInt32(*owner, field);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = owner->GetReflection()->GetInt64(*owner, field);
    } else {
      value = owner->GetReflection()->GetDouble(*owner, field);
    }
    return true;
  }

  const Message& message_;
  const std::string path_;
  base::Violations* const violations_;
};

template <typename Options>
void Set(Options options, v1::Algorithm* proto) {
  const std::string name = study::AlgorithmName(options);
  Message* const message = proto->GetReflection()->MutableMessage(proto, FieldOf(*proto, name.c_str()));
  VisitOptions(options, OptionWriter(message));
  const auto nested = [&](const char* field) {
    return static_cast<v1::Algorithm*>(message->GetReflection()->MutableMessage(message, FieldOf(*message, field)));
  };
  if constexpr (requires { options.eta; }) *nested("sampler") = AlgorithmToProto(study::AsAlgorithm(options.sampler));
  if constexpr (requires { options.base; }) {
    std::visit([&](const auto& base) { Set(base, nested("base")); }, options.base);
  }
}

// Returns the options of the algorithm that `proto` has; those that it does not say are those of `options`.
template <typename Options>
Options ReadOptions(Options options, const v1::Algorithm& proto, base::Violations* violations) {
  const std::string name = study::AlgorithmName(options);
  const Message& message = proto.GetReflection()->GetMessage(proto, FieldOf(proto, name.c_str()));
  VisitOptions(options, OptionReader(message, absl::StrCat("algorithm.", name), violations));
  return options;
}

// Refuses rules of a search that are not known.
void CheckRules(const std::string& algorithm, int32_t rules, int32_t newest, base::Violations* violations) {
  if (rules >= 0 && rules <= newest) return;
  violations->Add(absl::StrCat("algorithm.", algorithm, ".expert.rules"),
                  absl::StrCat(rules, " is not between 0 and ", newest, "; leave it out"));
}

study::BoOptions ReadBo(study::BoPreset preset, const v1::Algorithm& proto, base::Violations* violations) {
  study::BoOptions result = ReadOptions(study::BoDefaults(preset), proto, violations);
  CheckRules(study::AlgorithmName(result), result.rules, study::BoOptions::kNewestRules, violations);
  // The default suits the acquisition.
  if (preset == study::BoPreset::kLbo && proto.lbo().expert().lipschitz() == v1::BoExpert::LIPSCHITZ_UNSPECIFIED) {
    if (result.acquisition == study::BoAcquisition::kUcb) result.lipschitz = study::BoLipschitz::kCap;
    if (result.acquisition == study::BoAcquisition::kTs) result.lipschitz = study::BoLipschitz::kAcceptReject;
  }
  return result;
}

study::HarmonicaOptions ReadHarmonica(const v1::Algorithm& proto, base::Violations* violations) {
  study::HarmonicaOptions result = ReadOptions(study::HarmonicaOptions(), proto, violations);
  const v1::Algorithm& base = proto.harmonica().base();
  const v1::Algorithm::KindCase kind = base.kind_case();
  if (kind == v1::Algorithm::KIND_NOT_SET) return result;
  // A nested harmonica is not read, as it may be nested without end.
  std::optional<study::HarmonicaBase> read;
  if (kind != v1::Algorithm::kHarmonica) {
    base::Violations own;
    std::visit(
        [&](const auto& options) {
          if constexpr (std::is_constructible_v<study::HarmonicaBase, decltype(options)>) read = options;
        },
        AlgorithmFromProto(base, &own));
    violations->AddMoved("algorithm", "algorithm.harmonica.base", own.ToStatus());
  }
  if (read) {
    result.base = *read;
  } else {
    violations->Add("algorithm.harmonica.base",
                    "cannot be this algorithm; use random, sobol, halton, grid, bo, hbo, lbo, fobo, tpe, cma_es, "
                    "successive_halving, hyperband or asha");
  }
  return result;
}

// Returns the sampler of an algorithm that trains in parts, whose field is `at`.
template <typename Proto>
study::SamplerSpec SamplerFrom(const Proto& proto, const std::string& at, base::Violations* violations) {
  if (!proto.has_sampler() || proto.sampler().kind_case() == v1::Algorithm::KIND_NOT_SET) return study::RandomOptions{};
  base::Violations own;
  // One level at most: nothing is read below what is refused.
  switch (proto.sampler().kind_case()) {
    case v1::Algorithm::kSuccessiveHalving:
    case v1::Algorithm::kHyperband:
    case v1::Algorithm::kAsha:
      violations->Add(at + ".sampler", "trains in parts itself; choose another, e.g. random, sobol or bo");
      return study::RandomOptions{};
    case v1::Algorithm::kHarmonica:
      violations->Add(at + ".sampler", "has stages of its own; choose another, e.g. random, tpe or bo");
      return study::RandomOptions{};
    default:
      break;
  }
  const study::AlgorithmSpec algorithm = AlgorithmFromProto(proto.sampler(), &own);
  violations->AddMoved("algorithm", at + ".sampler", own.ToStatus());
  study::SamplerSpec sampler;
  std::visit(
      [&](const auto& options) {
        if constexpr (std::is_constructible_v<study::SamplerSpec, decltype(options)>) sampler = options;
      },
      algorithm);
  return sampler;
}

// Returns the options of an algorithm that trains in parts; `proto` has its message in `message`.
template <typename Options, typename Proto>
Options ReadWithSampler(const v1::Algorithm& proto, const Proto& message, base::Violations* violations) {
  Options result = ReadOptions(Options(), proto, violations);
  result.sampler = SamplerFrom(message, absl::StrCat("algorithm.", study::AlgorithmName(result)), violations);
  return result;
}

study::AutoOptions ReadAuto(const v1::Algorithm& proto, base::Violations* violations) {
  const study::AutoOptions result = ReadOptions(study::AutoOptions(), proto, violations);
  CheckRules("auto", result.rules, study::AutoOptions::kNewestRules, violations);
  return result;
}

}  // namespace

v1::Algorithm AlgorithmToProto(const study::AlgorithmSpec& algorithm) {
  v1::Algorithm proto;
  std::visit([&](const auto& options) { Set(options, &proto); }, algorithm);
  return proto;
}

study::AlgorithmSpec AlgorithmFromProto(const v1::Algorithm& proto, base::Violations* violations) {
  switch (proto.kind_case()) {
    case v1::Algorithm::kRandom:
      return study::RandomOptions{};
    case v1::Algorithm::kSobol:
      return ReadOptions(study::SobolOptions(), proto, violations);
    case v1::Algorithm::kGrid:
      return ReadOptions(study::GridOptions(), proto, violations);
    case v1::Algorithm::kCmaEs:
      return ReadOptions(study::CmaEsOptions(), proto, violations);
    case v1::Algorithm::kNsga2:
      return ReadOptions(study::Nsga2Options(), proto, violations);
    case v1::Algorithm::kHoag:
      return ReadOptions(study::HoagOptionsFor(study::HoagPreset::kHoag), proto, violations);
    case v1::Algorithm::kProjectedGradient:
      return ReadOptions(study::HoagOptionsFor(study::HoagPreset::kProjectedGradient), proto, violations);
    case v1::Algorithm::kIterdiff:
      return ReadOptions(study::HoagOptionsFor(study::HoagPreset::kIterdiff), proto, violations);
    case v1::Algorithm::kHalton:
      return ReadOptions(study::HaltonOptions(), proto, violations);
    case v1::Algorithm::kBo:
      return ReadBo(study::BoPreset::kBo, proto, violations);
    case v1::Algorithm::kHbo:
      return ReadBo(study::BoPreset::kHbo, proto, violations);
    case v1::Algorithm::kLbo:
      return ReadBo(study::BoPreset::kLbo, proto, violations);
    case v1::Algorithm::kFobo:
      return ReadBo(study::BoPreset::kFobo, proto, violations);
    case v1::Algorithm::kTpe:
      return ReadOptions(study::TpeOptions(), proto, violations);
    case v1::Algorithm::kAuto:
      return ReadAuto(proto, violations);
    case v1::Algorithm::kHarmonica:
      return ReadHarmonica(proto, violations);
    case v1::Algorithm::kSuccessiveHalving:
      return ReadWithSampler<study::SuccessiveHalvingOptions>(proto, proto.successive_halving(), violations);
    case v1::Algorithm::kHyperband:
      return ReadWithSampler<study::HyperbandOptions>(proto, proto.hyperband(), violations);
    case v1::Algorithm::kAsha:
      return ReadWithSampler<study::AshaOptions>(proto, proto.asha(), violations);
    case v1::Algorithm::KIND_NOT_SET:
      break;
  }
  return study::AutoOptions{};
}

}  // namespace luthier::wire
