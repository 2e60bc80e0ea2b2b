#include "lib/wire/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/wire/convert.h"
#include "lib/wire/yaml_spec.h"
#include "luthier/v1/trial.pb.h"
#include "tests/lib/wire/random_spec.h"

namespace luthier::wire {
namespace {

TEST(Json, ShowsAMessageAsPeopleWantIt) {
  v1::Trial trial;
  trial.set_name("projects/default/studies/s/trials/3");
  trial.set_number(3);
  trial.set_state(v1::Trial::COMPLETE);
  (*trial.mutable_parameters()->mutable_fields())["lr"].set_number_value(0.001);
  (*trial.mutable_parameters()->mutable_fields())["depth"].set_number_value(4);
  (*trial.mutable_parameters()->mutable_fields())["kind"].set_string_value("rbf");
  v1::Measurement* m = trial.mutable_final_measurement();
  (*m->mutable_metrics())["loss"] = -std::numeric_limits<double>::infinity();
  (*m->mutable_metrics())["acc"] = std::nan("");
  trial.mutable_create_time()->set_seconds(1'700'000'000);
  trial.set_update_seq(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ToJson(trial).dump(),
            "{\"name\":\"projects/default/studies/s/trials/3\",\"number\":3,\"state\":\"COMPLETE\","
            "\"parameters\":{\"depth\":4,\"kind\":\"rbf\",\"lr\":0.001},"
            "\"final_measurement\":{\"step\":0,\"metrics\":{\"acc\":\"NaN\",\"loss\":\"-Infinity\"},\"standard_"
            "errors\":{},\"gradients\":{}},"
            "\"attempts\":[],\"measurements\":[],\"checkpoint\":\"\",\"attributes\":{},"
            "\"create_time\":\"2023-11-14T22:13:20Z\",\"update_seq\":18446744073709551615,\"gradient_set_aside\":false,"
            "\"promotions\":[],\"checkpoint_step\":0,\"resource_spent\":0,"
            "\"retry_of\":0,\"retried_by\":0,\"attributes_left_out\":[],"
            "\"stop_requested\":false}");
}

TEST(Json, SpecsReadBackFromJsonAndYaml) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    base::RandomStream random(seed, "test.json");
    const study::StudySpec spec = testing::RandomSpec(random);
    const v1::StudySpec proto = ToProto(spec);
    for (const std::string& text : {ToJson(proto).dump(), ToJson(proto).dump(2), ToYaml(proto)}) {
      const absl::StatusOr<StudyFile> file = StudyFile::Parse(text, "f");
      ASSERT_TRUE(file.ok()) << file.status() << "\n" << text;
      const absl::StatusOr<study::StudySpec> back = FromProto(file->spec());
      ASSERT_TRUE(back.ok());
      ASSERT_EQ(*back, spec) << text;
    }
  }
}

// Protobuf takes a null in a map for 0, and a program that writes null for NaN would have the best loss.
TEST(Json, NullIsNoValueOfAMapOrAList) {
  v1::Trial trial;
  EXPECT_TRUE(FromJson(R"({"finalMeasurement": {"metrics": {"loss": "NaN"}}})", false, &trial).ok());
  EXPECT_TRUE(FromJson(R"({"finalMeasurement": null, "name": null, "state": null})", false, &trial).ok());
  EXPECT_TRUE(FromJson(R"({"parameters": {"x": null}, "displayName": 1, "null": 2})", true, &trial).ok());
  for (const auto& [text, where] : std::map<std::string, std::string>{
           {R"({"finalMeasurement": {"metrics": {"ms": 1, "loss": null}}})", "finalMeasurement.metrics.loss is null"},
           {R"({"final_measurement": {"metrics": {"loss": null}}})", "final_measurement.metrics.loss is null"},
           {R"({"final_measurement": {"standardErrors": {"loss": null}}})", "standardErrors.loss is null"},
           {R"({"attributes": {"a.b": null}})", "attributes.a.b is null"}}) {
    const absl::Status status = FromJson(text, false, &trial);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(where), std::string::npos) << status;
  }
  EXPECT_FALSE(FromJson(R"({"measurements": [{"step": 1, "metrics": {"loss": null}}]})", false, &trial).ok());
  EXPECT_FALSE(FromJson(R"({"finalMeasurement": {"gradient": {"values": [1, null]}}})", false, &trial).ok());
  EXPECT_FALSE(FromJson("{\"name\": 1", false, &trial).ok());
}

TEST(Yaml, IsWhatAPersonWouldWrite) {
  v1::StudySpec spec;
  spec.set_display_name("L2 strength: a test");
  v1::ParameterSpec* p = spec.add_space();
  p->set_name("l2");
  p->mutable_float_()->set_min(1e-8);
  p->mutable_float_()->set_max(1e4);
  p->mutable_float_()->set_scale(v1::LOG);
  p = spec.add_space();
  p->set_name("kernel");
  for (const char* label : {"rbf", "true", "3"}) p->mutable_categorical()->add_values(label);
  spec.mutable_lease()->mutable_ttl()->set_seconds(90);
  EXPECT_EQ(ToYaml(spec),
            "display_name: \"L2 strength: a test\"\n"
            "space:\n"
            "  - {name: l2, float: {min: 1e-08, max: 10000, scale: LOG}}\n"
            "  - {name: kernel, categorical: {values: [rbf, \"true\", \"3\"]}}\n"
            "lease: {ttl: \"90s\"}\n"
            "seed: 0\n"
            "reproducible: false\n"
            "open_space: false\n");
}

}  // namespace
}  // namespace luthier::wire
