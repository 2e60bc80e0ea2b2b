#include "lib/base/checkpoint.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <string>
#include <utility>

namespace luthier::base {
namespace {

using Eigen::VectorXd;

TEST(CheckpointTest, RoundTripsEveryBit) {
  CheckpointWriter writer("kind/1");
  writer.U64(~0ULL);
  writer.F64(-0.0);
  writer.F64(NAN);
  writer.Text(std::string("a\0b", 3));
  writer.Vector((VectorXd(2) << 1e-310, -INFINITY).finished());
  writer.Vector(VectorXd());
  const std::string bytes = std::move(writer).Finish();
  CheckpointReader reader = CheckpointReader::Open(bytes, "kind/1").value();
  EXPECT_EQ(reader.U64(), ~0ULL);
  EXPECT_TRUE(std::signbit(reader.F64()));
  EXPECT_TRUE(std::isnan(reader.F64()));
  EXPECT_EQ(reader.Text(), std::string("a\0b", 3));
  EXPECT_EQ(reader.Vector(), (VectorXd(2) << 1e-310, -INFINITY).finished());
  EXPECT_EQ(reader.Vector().size(), 0);
  EXPECT_TRUE(reader.Done());
  EXPECT_EQ(reader.U64(), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(CheckpointTest, AnyDamageIsNoticed) {
  CheckpointWriter writer("kind/1");
  writer.Vector(VectorXd::Ones(5));
  const std::string bytes = std::move(writer).Finish();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_EQ(CheckpointReader::Open(damaged, "kind/1").status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_FALSE(CheckpointReader::Open(bytes.substr(0, i), "kind/1").ok()) << i;
  }
  EXPECT_EQ(CheckpointReader::Open(bytes, "kind/2").status().code(), absl::StatusCode::kFailedPrecondition);
  // A length beyond the end, with a right checksum.
  CheckpointWriter lying("kind/1");
  lying.U64(uint64_t{1} << 62);
  const std::string lie = std::move(lying).Finish();
  CheckpointReader reader = CheckpointReader::Open(lie, "kind/1").value();
  EXPECT_EQ(reader.Vector().size(), 0);
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace luthier::base
