#include "server/directory_watch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "lib/base/log.h"
#include "server/listener_check.h"
#include "server/server.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::server {
namespace {

TEST(DirectoryWatch, LooksUntilTheFirstErrorAndTellsOfItOnce) {
  std::atomic<int> looks = 0, told = 0;
  absl::Notification gone;
  {
    const DirectoryWatch watch([&] { return ++looks < 3 ? absl::OkStatus() : absl::DataLossError("moved"); },
                               absl::Milliseconds(1),
                               [&](const absl::Status& status) {
                                 EXPECT_EQ(status.message(), "moved");
                                 if (++told == 1) gone.Notify();
                               });
    EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(30)));
  }
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(told, 1);
}

ListenAddress Socket(const std::string& path) {
  ListenAddress address;
  address.path = path;
  return address;
}

bool AnswersSoon(const ListenAddress& address) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (absl::Now() < end) {
    if (std::filesystem::exists(address.path) && Answers(address, absl::Seconds(5))) return true;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return false;
}

TEST(DirectoryWatch, SocketsWhoseFileIsRemovedAreMadeAgain) {
  base::SetLogLevel(base::LogLevel::kOff);
  const testing::TemporaryDirectory directory;
  ServerOptions options;
  options.data_dir = directory.path() + "/data";
  options.listen = "unix:" + directory.path() + "/public";
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  for (const std::string& path : {directory.path() + "/public", options.data_dir + "/socket"}) {
    ASSERT_TRUE(Answers(Socket(path), absl::Seconds(20))) << path;
    for (int i = 0; i < 2; ++i) {
      std::filesystem::remove(path);
      EXPECT_TRUE(AnswersSoon(Socket(path))) << path;
    }
  }
  struct stat info;
  ASSERT_EQ(stat((options.data_dir + "/socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  (*server)->Stop();
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/public"));
  EXPECT_FALSE(std::filesystem::exists(options.data_dir + "/socket"));
}

}  // namespace
}  // namespace luthier::server
