#include "server/supervisor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "lib/base/descriptor.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::server {
namespace {

// A service manager that hears one word.
std::string Heard(const std::string& name, size_t address_size, const std::string& state) {
  const base::Descriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_size);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return "can't bind";
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  TellSupervisor(state);
  unsetenv("NOTIFY_SOCKET");
  char text[64] = "";
  const ssize_t got = recv(fd.get(), text, sizeof(text), 0);
  return got < 0 ? "nothing" : std::string(text, static_cast<size_t>(got));
}

TEST(Supervisor, TheManagerIsToldThroughItsSocket) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/notify";
  EXPECT_EQ(Heard(path, path.size(), "READY=1"), "READY=1");
  const std::string abstract = "@luthier-test-" + std::to_string(getpid());
  EXPECT_EQ(Heard(abstract, abstract.size(), "STOPPING=1"), "STOPPING=1");
}

TEST(Supervisor, AMissingManagerIsNoError) {
  unsetenv("NOTIFY_SOCKET");
  TellSupervisor("READY=1");
  for (const std::string& name : {std::string(), std::string("/no/such/socket"), std::string(200, 'x')}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    TellSupervisor("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace luthier::server
