#include "lib/wire/resource_name.h"

#include <gtest/gtest.h>

#include <limits>

#include "lib/base/error.h"

namespace luthier::wire {
namespace {

TEST(ResourceName, BuildsAndParses) {
  EXPECT_EQ(StudyName("a.b-c_1"), "projects/default/studies/a.b-c_1");
  EXPECT_EQ(*ParseStudyName("name", StudyName("a.b-c_1")), "a.b-c_1");
  EXPECT_EQ(TrialName("s", 12), "projects/default/studies/s/trials/12");
  EXPECT_EQ(*ParseTrialName("name", TrialName("s", 12)), (TrialId{"s", 12}));
  EXPECT_EQ(StudyName("vision/s"), "projects/vision/studies/s");
  EXPECT_EQ(*ParseStudyName("name", "projects/vision/studies/s"), "vision/s");
  EXPECT_EQ(*ParseTrialName("name", TrialName("vision/s", 3)), (TrialId{"vision/s", 3}));
  EXPECT_EQ(*ParseProjectName("parent", ProjectName("vision")), "vision");
  const int64_t last = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ParseTrialName("name", TrialName("s", last))->number, last);
}

TEST(ResourceName, RefusesEverythingElse) {
  for (const char* bad :
       {"", "s", "projects/default/studies/", "projects//studies/s", "projects/default/studies/S",
        "projects/default/studies/s/", "projects/default/studies/s/trials/1", "projects/default/studies/a..b",
        "/projects/default/studies/s", "projects/default/studies/s\n"}) {
    EXPECT_FALSE(ParseStudyName("name", bad).ok()) << bad;
  }
  for (const char* bad :
       {"", "projects/default/studies/s", "projects/default/studies/s/trials/", "projects/P/studies/s/trials/1",
        "projects/default/studies/s/trials/0", "projects/default/studies/s/trials/01",
        "projects/default/studies/s/trials/+1", "projects/default/studies/s/trials/-1",
        "projects/default/studies/s/trials/1 ", "projects/default/studies/s/trials/1/x",
        "projects/default/studies/s/trials/9223372036854775808", "projects/default/studies//trials/1",
        "projects/default/studies/s/t/trials/1", "s/1"}) {
    EXPECT_FALSE(ParseTrialName("name", bad).ok()) << bad;
  }
}

TEST(ResourceName, ErrorNamesTheFieldAndTheForm) {
  const absl::Status status = ParseTrialName("trial", "x").status();
  EXPECT_EQ(std::string(status.message()),
            "trial: \"x\" is not of the form projects/{project}/studies/{study}/trials/{number}");
  EXPECT_EQ(std::string(ParseStudyName("name", "").status().message()),
            "name: is required: projects/{project}/studies/{study}");
}

TEST(ResourceName, ANameOfAnyFormNamesItsProject) {
  EXPECT_EQ(ResourceName("name", "projects/vision/studies/s/trials/3").project(), "vision");
  EXPECT_EQ(ResourceName("name", "projects/vision/what").project(), "vision");
  EXPECT_EQ(ResourceName("name", "vision").project(), "");
  EXPECT_TRUE(ResourceName("name", "").empty());
  const ResourceName study("name", "projects/vision/studies/s");
  EXPECT_EQ(*study.Study(), "vision/s");
  EXPECT_EQ(std::string(study.Project().status().message()),
            "name: \"projects/vision/studies/s\" is not of the form projects/{project}");
}

}  // namespace
}  // namespace luthier::wire
