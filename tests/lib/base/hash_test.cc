#include "lib/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace luthier::base {
namespace {

// XXH3_64bits as every implementation computes it.
TEST(Hash64Test, IsXxh3) {
  EXPECT_EQ(Hash64(""), 0x2D06800538D394C2u);
  EXPECT_EQ(Hash64("abc"), 0x78AF5F94892F3950u);
}

TEST(Hash64Test, DependsOnEveryByte) {
  std::set<uint64_t> seen = {Hash64("abc"),
                             Hash64("abd"),
                             Hash64("ab"),
                             Hash64(std::string("abc\0", 4)),
                             Hash64(std::string(1000, 'a')),
                             Hash64(std::string(1001, 'a'))};
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_NE(Hash64("abc", 1), Hash64("abc"));
}

// FIPS 180-4 examples.
TEST(Sha256Test, MatchesThePublishedExamples) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HashTest, TheHashOfPartsIsThatOfTheWhole) {
  std::string bytes;
  for (int k = 0; k < 3000; ++k) bytes.push_back(static_cast<char>(k * k % 251));
  for (const size_t part : {1, 7, 240, 1000, 5000}) {
    Hash64Parts hash;
    Sha256Parts sha;
    EXPECT_EQ(hash.Value(), Hash64(""));
    for (size_t at = 0; at < bytes.size(); at += part) {
      hash.Add(absl::string_view(bytes).substr(at, part));
      sha.Add(absl::string_view(bytes).substr(at, part));
    }
    EXPECT_EQ(hash.Value(), Hash64(bytes));
    EXPECT_EQ(std::move(sha).Hex(), Sha256Hex(bytes));
  }
}

}  // namespace
}  // namespace luthier::base
