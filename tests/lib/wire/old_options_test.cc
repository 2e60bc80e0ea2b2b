#include "lib/wire/old_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>

#include <bit>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/wire/convert.h"

namespace luthier::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A message as a program of the past wrote it: with fields that it has no more.
class Old {
 public:
  explicit Old(google::protobuf::Message* message) : fields_(message->GetReflection()->MutableUnknownFields(message)) {}
  Old& Whole(int number, uint64_t value) {
    fields_->AddVarint(number, value);
    return *this;
  }
  Old& Double(int number, double value) {
    fields_->AddFixed64(number, std::bit_cast<uint64_t>(value));
    return *this;
  }

 private:
  google::protobuf::UnknownFieldSet* fields_;
};

std::vector<std::string> Move(v1::Algorithm* algorithm) {
  std::vector<std::string> removed;
  for (const RemovedOption& option : MoveOldOptions("algorithm", algorithm)) {
    removed.push_back(absl::StrCat(option.field, ": ", option.value));
  }
  return removed;
}

TEST(OldOptions, StandInExpertAfterwards) {
  v1::Algorithm algorithm;
  algorithm.mutable_hbo()->set_initial_points(3);
  Old(algorithm.mutable_hbo()).Whole(4, v1::BoExpert::SE).Double(18, 7.5).Whole(25, 0);
  EXPECT_THAT(Move(&algorithm), IsEmpty());
  EXPECT_EQ(algorithm.hbo().initial_points(), 3);
  EXPECT_EQ(algorithm.hbo().expert().kernel(), v1::BoExpert::SE);
  EXPECT_EQ(algorithm.hbo().expert().beta(), 7.5);
  EXPECT_TRUE(algorithm.hbo().expert().has_count_history());
  EXPECT_FALSE(algorithm.hbo().expert().count_history());
  EXPECT_TRUE(algorithm.GetReflection()->GetUnknownFields(algorithm.hbo()).empty());
  const v1::Algorithm once = algorithm;
  EXPECT_THAT(Move(&algorithm), IsEmpty());
  EXPECT_EQ(algorithm.SerializeAsString(), once.SerializeAsString());
}

TEST(OldOptions, StandInExpertOfNestedAlgorithmsToo) {
  v1::Algorithm algorithm;
  Old(algorithm.mutable_harmonica()).Whole(3, 2).Whole(9, 4);
  v1::Algorithm* const sampler = algorithm.mutable_harmonica()->mutable_base()->mutable_hyperband()->mutable_sampler();
  Old(sampler->mutable_cma_es()).Double(2, 0.1);
  EXPECT_THAT(Move(&algorithm), IsEmpty());
  EXPECT_EQ(algorithm.harmonica().expert().degree(), 2);
  EXPECT_EQ(algorithm.harmonica().expert().float_bits(), 4);
  EXPECT_EQ(sampler->cma_es().expert().initial_sigma(), 0.1);
}

TEST(OldOptions, ThatAreNoMoreAreNamedUnlessTheyHadTheirDefault) {
  v1::Algorithm algorithm;
  Old(algorithm.mutable_bo()).Whole(7, 1).Double(15, 10.0).Whole(23, 1).Whole(24, 1).Whole(4, 2);
  EXPECT_THAT(Move(&algorithm), IsEmpty());
  EXPECT_EQ(algorithm.bo().expert().kernel(), v1::BoExpert::MATERN52);
  Old(algorithm.mutable_asha()).Whole(4, 1);
  v1::Algorithm* const sampler = algorithm.mutable_asha()->mutable_sampler();
  Old(sampler->mutable_lbo()).Whole(7, 2).Double(15, 2.5).Whole(4, 6).Whole(14, 5).Whole(9, 4);
  EXPECT_THAT(Move(&algorithm), ElementsAre("algorithm.asha.first_go_on: 1", "algorithm.asha.sampler.lbo.criterion: 2",
                                            "algorithm.asha.sampler.lbo.growth_factor: 2.5",
                                            "algorithm.asha.sampler.lbo.expert.kernel: RQ",
                                            "algorithm.asha.sampler.lbo.expert.pending: LIAR_MAX",
                                            "algorithm.asha.sampler.lbo.expert.growth: FITTED"));
  EXPECT_EQ(sampler->lbo().expert().kernel(), v1::BoExpert::KERNEL_UNSPECIFIED);
  Old(algorithm.mutable_hyperband()).Whole(2, 2).Double(3, 0.5).Whole(4, 0);
  EXPECT_THAT(Move(&algorithm), ElementsAre("algorithm.hyperband.sizes: 2", "algorithm.hyperband.quorum: 0.5",
                                            "algorithm.hyperband.overlap: 0"));
  Old(algorithm.mutable_iterdiff()).Whole(3, 2).Whole(4, 0).Double(6, 1.0);
  EXPECT_THAT(Move(&algorithm), ElementsAre("algorithm.iterdiff.reject_guard: 0", "algorithm.iterdiff.max_step: 1",
                                            "algorithm.iterdiff.expert.step_rule: LITERAL"));
}

TEST(OldOptions, FormsOfOldClientsAreTakenOrRefusedWithWhatToWrite) {
  v1::Algorithm algorithm;
  Old(algorithm.mutable_bo()).Whole(4, v1::BoExpert::SE);
  EXPECT_EQ(std::get<study::BoOptions>(*FromProto(algorithm)).kernel, study::BoKernel::kSe);
  algorithm.Clear();
  algorithm.mutable_bo()->mutable_expert()->set_kernel(static_cast<v1::BoExpert::Kernel>(3));
  Old(algorithm.mutable_bo()).Whole(23, 2);
  const std::string refusal(FromProto(algorithm).status().message());
  EXPECT_THAT(refusal, HasSubstr("algorithm.bo.feasibility: 2 is no option any more; leave it out"));
  EXPECT_THAT(refusal, HasSubstr("algorithm.bo.expert.kernel: MATERN32 is no option any more; use one of AUTO, "));
}

}  // namespace
}  // namespace luthier::wire
