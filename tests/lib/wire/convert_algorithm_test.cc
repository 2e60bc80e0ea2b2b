#include "lib/wire/convert_algorithm.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/search/registry.h"
#include "lib/wire/convert.h"
#include "tests/lib/study/builders.h"

namespace luthier::wire {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using study::BoOptions;
using study::BoPreset;
using Bo = v1::Algorithm::Bo;
using Expert = v1::BoExpert;
using ::testing::HasSubstr;

constexpr BoPreset kPresets[] = {BoPreset::kBo, BoPreset::kHbo, BoPreset::kLbo, BoPreset::kFobo};

v1::Algorithm Proto(BoPreset preset, const Bo& options = {}) {
  v1::Algorithm proto;
  *(preset == BoPreset::kBo    ? proto.mutable_bo()
    : preset == BoPreset::kHbo ? proto.mutable_hbo()
    : preset == BoPreset::kLbo ? proto.mutable_lbo()
                               : proto.mutable_fobo()) = options;
  return proto;
}
BoOptions Read(BoPreset preset, const Bo& proto = {}) {
  base::Violations violations;
  const study::AlgorithmSpec spec = AlgorithmFromProto(Proto(preset, proto), &violations);
  EXPECT_TRUE(violations.ToStatus().ok()) << violations.ToStatus();
  return std::get<BoOptions>(spec);
}
const Bo& Options(const v1::Algorithm& proto) {
  return proto.has_bo() ? proto.bo() : proto.has_hbo() ? proto.hbo() : proto.has_lbo() ? proto.lbo() : proto.fobo();
}
std::string Refusal(const v1::Algorithm& proto) {
  return std::string(FromProto(proto).status().message());
}

TEST(RungAlgorithmsTest, TheDefaultsAreThoseOfTheStructs) {
  v1::Algorithm proto;
  proto.mutable_successive_halving();
  EXPECT_EQ(*FromProto(proto), study::AlgorithmSpec(study::SuccessiveHalvingOptions{}));
  proto.mutable_hyperband();
  EXPECT_EQ(*FromProto(proto), study::AlgorithmSpec(study::HyperbandOptions{}));
  proto.mutable_asha()->mutable_sampler();  // Nothing said about it.
  EXPECT_EQ(*FromProto(proto), study::AlgorithmSpec(study::AshaOptions{}));
}

TEST(RungAlgorithmsTest, SamplersDoNotTrainInPartsThemselves) {
  v1::Algorithm proto;
  v1::Algorithm* deepest = &proto;
  for (int i = 0; i < 50; ++i) deepest = deepest->mutable_asha()->mutable_sampler();
  deepest->mutable_random();
  EXPECT_THAT(Refusal(proto), HasSubstr("algorithm.asha.sampler: trains in parts itself; choose another"));
}

TEST(RungAlgorithmsTest, UnknownNumbersAreRefused) {
  v1::Algorithm proto;
  proto.mutable_asha()->set_variant(static_cast<v1::Algorithm::Asha::Variant>(9));
  proto.mutable_asha()->mutable_sampler()->mutable_bo()->mutable_expert()->set_kernel(static_cast<Expert::Kernel>(99));
  EXPECT_THAT(Refusal(proto), HasSubstr("algorithm.asha.variant: has the unknown value 9; use one of PROMOTE, STOP"));
  EXPECT_THAT(Refusal(proto), HasSubstr("algorithm.asha.sampler.bo.expert.kernel: has the unknown value 99"));
}

std::vector<const FieldDescriptor*> EnumFields() {
  std::vector<const FieldDescriptor*> fields;
  for (const google::protobuf::Descriptor* message : {Bo::descriptor(), Expert::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      if (message->field(i)->type() == FieldDescriptor::TYPE_ENUM) fields.push_back(message->field(i));
    }
  }
  return fields;
}
bool IsExpert(const FieldDescriptor* field) {
  return field->containing_type() == Expert::descriptor();
}
void SetEnum(const FieldDescriptor* field, int value, Bo* proto) {
  if (IsExpert(field)) return Expert::GetReflection()->SetEnumValue(proto->mutable_expert(), field, value);
  Bo::GetReflection()->SetEnumValue(proto, field, value);
}
int EnumOf(const FieldDescriptor* field, const Bo& proto) {
  return IsExpert(field) ? Expert::GetReflection()->GetEnumValue(proto.expert(), field)
                         : Bo::GetReflection()->GetEnumValue(proto, field);
}

TEST(ConvertAlgorithm, PresetsAreTheirDefaults) {
  for (const BoPreset preset : kPresets) EXPECT_EQ(Read(preset), study::BoDefaults(preset));
  EXPECT_EQ(Read(BoPreset::kBo).explore_every, 0);
  EXPECT_EQ(Read(BoPreset::kHbo).explore_every, 4);
  EXPECT_EQ(Read(BoPreset::kHbo).exploration, study::BoExploration::kRandom);
  EXPECT_EQ(Read(BoPreset::kHbo).lipschitz, study::BoLipschitz::kOff);
  EXPECT_EQ(Read(BoPreset::kLbo).explore_every, 4);
  EXPECT_EQ(Read(BoPreset::kLbo).exploration, study::BoExploration::kLipo);
  EXPECT_EQ(Read(BoPreset::kLbo).lipschitz, study::BoLipschitz::kTruncate);
  EXPECT_EQ(Read(BoPreset::kFobo).gradients, study::BoGradients::kFull);
  EXPECT_EQ(Read(BoPreset::kLbo).gradients, study::BoGradients::kOff);
  base::Violations violations;
  EXPECT_EQ(AlgorithmFromProto(v1::Algorithm(), &violations), study::AlgorithmSpec(study::AutoOptions()));
}

TEST(ConvertAlgorithm, EveryValueOfEveryOptionSurvives) {
  for (const BoPreset preset : kPresets) {
    for (const FieldDescriptor* field : EnumFields()) {
      const EnumDescriptor* names = field->enum_type();
      EXPECT_EQ(names->value(0)->number(), 0);
      EXPECT_THAT(names->value(0)->name(), ::testing::EndsWith("_UNSPECIFIED"));
      for (int v = 1; v < names->value_count(); ++v) {
        Bo proto;
        SetEnum(field, names->value(v)->number(), &proto);
        const BoOptions options = Read(preset, proto);
        const v1::Algorithm full = AlgorithmToProto(options);
        EXPECT_EQ(full.kind_case(), Proto(preset).kind_case());
        EXPECT_EQ(EnumOf(field, Options(full)), names->value(v)->number()) << names->value(v)->name();
        // Written out, nothing is left to defaults: another turn changes nothing.
        EXPECT_EQ(Read(preset, Options(full)), options);
      }
    }
  }
}

TEST(ConvertAlgorithm, UnknownValuesAreRefusedByName) {
  for (const BoPreset preset : kPresets) {
    const std::string name = study::AlgorithmName(study::BoDefaults(preset));
    for (const FieldDescriptor* field : EnumFields()) {
      for (const int value : {-1, 99, 1000}) {
        Bo proto;
        SetEnum(field, value, &proto);
        base::Violations violations;
        AlgorithmFromProto(Proto(preset, proto), &violations);
        const absl::Status status = violations.ToStatus();
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        const auto detail = base::GetErrorDetail(status);
        ASSERT_TRUE(detail.has_value());
        ASSERT_EQ(detail->violations.size(), 1u);
        EXPECT_EQ(detail->violations[0].field,
                  absl::StrCat("algorithm.", name, IsExpert(field) ? ".expert." : ".", field->name()));
        EXPECT_THAT(detail->violations[0].description, HasSubstr(absl::StrCat(value)));
        EXPECT_THAT(detail->violations[0].description, HasSubstr(field->enum_type()->value(1)->name()));
      }
    }
  }
  // All of them at once are all reported.
  Bo proto;
  for (const FieldDescriptor* field : EnumFields()) SetEnum(field, 99, &proto);
  base::Violations violations;
  AlgorithmFromProto(Proto(BoPreset::kLbo, proto), &violations);
  EXPECT_EQ(base::GetErrorDetail(violations.ToStatus())->violations.size(), EnumFields().size());
}

TEST(ConvertAlgorithm, LboPicksTheBoundsThatSuitItsAcquisition) {
  study::StudySpec spec;
  spec.space = study::Space({study::Float("x", 0, 1), study::Float("y", 0, 1)});
  spec.metric.name = "loss";
  for (int value = 1; value < Bo::Acquisition_descriptor()->value_count(); ++value) {
    Bo proto;
    proto.set_acquisition(static_cast<Bo::Acquisition>(value));
    for (const BoPreset preset : kPresets) {
      spec.algorithm = Read(preset, proto);
      EXPECT_TRUE(search::Validate(spec).ok()) << search::Validate(spec);
      study::BoLipschitz expected = study::BoLipschitz::kOff;
      if (preset == BoPreset::kLbo) {
        expected = value == Bo::UCB  ? study::BoLipschitz::kCap
                   : value == Bo::TS ? study::BoLipschitz::kAcceptReject
                                     : study::BoLipschitz::kTruncate;
      }
      EXPECT_EQ(Read(preset, proto).lipschitz, expected);
    }
    // What is said stands, suitable or not.
    proto.mutable_expert()->set_lipschitz(Expert::LIPSCHITZ_OFF);
    EXPECT_EQ(Read(BoPreset::kLbo, proto).lipschitz, study::BoLipschitz::kOff);
    proto.mutable_expert()->set_lipschitz(Expert::TRUNCATE);
    EXPECT_EQ(Read(BoPreset::kLbo, proto).lipschitz, study::BoLipschitz::kTruncate);
  }
}

TEST(ConvertAlgorithm, NumbersThatAreGivenStand) {
  for (const BoPreset preset : kPresets) {
    Bo proto;
    proto.set_explore_every(0);
    proto.mutable_expert()->set_beta(0.0);
    proto.mutable_expert()->set_improvement(0.0);
    EXPECT_EQ(Read(preset, proto).explore_every, 0);
    EXPECT_EQ(Read(preset, proto).beta, 0.0);
    EXPECT_EQ(Read(preset, proto).improvement, 0.0);
    EXPECT_EQ(Read(preset).beta, 2.0);
    EXPECT_EQ(Read(preset).improvement, 0.01);
  }
}

std::string Page(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(absl::StrCat(std::getenv("LUTHIER_SOURCE_DIR"), "/docs/reference/", name)).rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// Fails unless `manual` has the message's fields and the values of their enums.
void ExpectDescribed(const google::protobuf::Descriptor& message, const std::string& manual) {
  const std::set<std::string> words = absl::StrSplit(manual, absl::ByAnyChar(" \n,.:;()`|"), absl::SkipEmpty());
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor* const field = message.field(i);
    EXPECT_TRUE(absl::StrContains(manual, absl::StrCat("`", field->name(), "`")))
        << field->name() << " is missing in docs/reference";
    if (field->type() != FieldDescriptor::TYPE_ENUM) continue;
    for (int v = 1; v < field->enum_type()->value_count(); ++v) {
      EXPECT_TRUE(words.contains(field->enum_type()->value(v)->name()))
          << field->enum_type()->value(v)->name() << " is missing in docs/reference";
    }
  }
}

// One list of options: the API's, `luthier algorithms`' and the manual's.
TEST(AlgorithmOptions, ApiRegistryAndManualAgree) {
  if (std::getenv("LUTHIER_SOURCE_DIR") == nullptr) GTEST_SKIP() << "LUTHIER_SOURCE_DIR is not set; ctest sets it";
  const google::protobuf::Descriptor* algorithm = v1::Algorithm::descriptor();
  std::set<std::string> kinds, registered;
  for (const search::AlgorithmInfo& info : search::Algorithms()) registered.insert(info.name);
  for (int i = 0; i < algorithm->field_count(); ++i) kinds.insert(algorithm->field(i)->name());
  EXPECT_EQ(kinds, registered);
  for (const search::AlgorithmInfo& info : search::Algorithms()) {
    SCOPED_TRACE(info.name);
    const google::protobuf::Descriptor* message = algorithm->FindFieldByName(info.name)->message_type();
    std::set<std::string> fields, options;
    for (int i = 0; i < message->field_count(); ++i) fields.insert(message->field(i)->name());
    for (const auto& [name, text] : info.options) options.insert(name);
    EXPECT_EQ(options.size(), info.options.size()) << "an option twice";
    EXPECT_EQ(fields, options);
    const std::string page = Page(info.name + ".md");
    // Presets share one page of options.
    const std::string manual = message == Bo::descriptor()
                                   ? Page("bo.md") + Page("hbo.md") + Page("lbo.md") + Page("fobo.md")
                               : message == v1::Algorithm::Hoag::descriptor() ? Page("hoag.md") + page
                                                                              : page;
    ExpectDescribed(*message, manual);
    const FieldDescriptor* const expert = message->FindFieldByName("expert");
    if (expert != nullptr) ExpectDescribed(*expert->message_type(), Page("expert.md"));
    for (int i = 0; i < message->field_count(); ++i) {
      const FieldDescriptor* field = message->field(i);
      if (field->type() != FieldDescriptor::TYPE_ENUM) continue;
      std::string line;
      for (const auto& [name, text] : info.options) {
        if (name == field->name()) line = text;
      }
      const std::set<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" ,:;()"), absl::SkipEmpty());
      for (int v = 1; v < field->enum_type()->value_count(); ++v) {
        EXPECT_TRUE(words.contains(field->enum_type()->value(v)->name()))
            << field->enum_type()->value(v)->name() << " is missing in: " << line;
      }
    }
  }
}

}  // namespace
}  // namespace luthier::wire
