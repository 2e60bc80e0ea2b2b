#include "server/program.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "lib/base/error.h"
#include "lib/base/heap.h"
#include "lib/base/log.h"
#include "lib/base/ownership.h"
#include "lib/base/version.h"
#include "lib/command_line/command_line.h"
#include "lib/wire/steady_waits.h"
#include "server/memory_limit.h"
#include "server/server.h"
#include "server/storage/held_files.h"
#include "server/supervisor.h"

namespace luthier::server {
namespace {

constexpr char kDefaultDirectory[] = "luthier-data";
constexpr int kArenas = 4;  // Arenas of the allocator: for the writer, and some threads that read or compute.

// True if other users can write to the default data directory, and so could make tokens, and read and change all
// studies.
bool OthersHaveDefaultDirectory() {
  const absl::Status owned = base::CheckOwnership(kDefaultDirectory, geteuid(), base::CurrentFolder::kTrusted);
  if (owned.ok() || absl::IsNotFound(owned)) return false;
  std::cerr << "luthierd: --data-dir: is not given, and the directory of this folder is not taken unasked: "
            << owned.message() << "; write --data-dir " << kDefaultDirectory
            << " if it is to be this one, else name another\n";
  return true;
}

// Ends the process when standard input ends, that is, when the process at its other end is gone.
void StopWithStdin() {
  char ignored[256];
  ssize_t got = 0;
  do {
    got = read(STDIN_FILENO, ignored, sizeof(ignored));
  } while (got > 0 || (got < 0 && errno == EINTR));
  kill(getpid(), SIGTERM);
}

// Returns what is wrong with the value of --memory-limit; empty: nothing.
std::string CheckMemoryLimit(const std::string& text) {
  constexpr int64_t kLeast = int64_t{64} << 20, kMost = int64_t{1} << 50;
  const int64_t bytes = text == "auto" ? 0 : ParseMemoryLimit(text);
  if (bytes == 0 || (bytes >= kLeast && bytes <= kMost)) return "";
  return base::Quote(text) + " is not auto, none, or a number of bytes from 64M to 1024T, as in 512M or 2G";
}

// Values of the command line.
struct Flags {
  Flags() { options.data_dir = kDefaultDirectory; }

  ServerOptions options;
  bool memory = false;
  bool exit_with_stdin = false;
  double suggest_deadline = 10.0;
  std::string memory_limit = "auto";
  std::string auth = "auto";
  std::string log_level = "info";
};

// Names where the data are and who may come.
void AddServingFlags(CLI::App* app, Flags* flags) {
  app->set_version_flag("--version", "luthierd " + base::VersionText());
  app->add_option("--listen", flags->options.listen, "host:port (port 0: any free one) or unix:PATH")
      ->envname("LUTHIER_LISTEN")
      ->capture_default_str();
  app->add_option("--data-dir", flags->options.data_dir, "Directory of the database; created when missing")
      ->envname("LUTHIER_DATA")
      ->capture_default_str();
  app->add_flag("--in-memory", flags->memory, "Keep nothing on disk: all is lost at the end");
  app->add_flag("--accept-plaintext", flags->options.accept_plaintext,
                "Listen beyond loopback although there is no encryption");
  app->add_option("--tls-cert", flags->options.tls.cert,
                  "PEM file: the server's certificate, then those that signed it")
      ->envname("LUTHIER_TLS_CERT");
  app->add_option("--tls-key", flags->options.tls.key, "PEM file: its private key; readable by this user alone")
      ->envname("LUTHIER_TLS_KEY");
  app->add_option("--tls-client-ca", flags->options.tls.client_ca,
                  "PEM file: clients need a certificate signed by one of these (default: they need none)")
      ->envname("LUTHIER_TLS_CLIENT_CA");
  app->add_option(
         "--auth", flags->auth,
         "Who needs a token: auto (everybody but this user on a Unix socket), required (everybody), off (nobody)")
      ->check(CLI::IsMember({"auto", "required", "off"}))
      ->envname("LUTHIER_AUTH")
      ->capture_default_str();
}

// Names what the coordinator may take, and whom it tells.
void AddRunningFlags(CLI::App* app, Flags* flags) {
  app->add_flag("--force-network-filesystem", flags->options.force_network_filesystem,
                "Keep the database on a network file system although its locks can't be trusted");
  app->add_option("--suggest-threads", flags->options.suggest_threads, "Threads that compute suggestions")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option(
         "--suggest-deadline", flags->suggest_deadline,
         "Seconds that asks wait for one study's model while other studies wait, too; then they get a point that "
         "needs none")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app->add_option(
         "--memory-limit", flags->memory_limit,
         "Memory, e.g. 512M, from which on new work is refused; auto: four fifths of the control group's, else half of "
         "the machine's; 0 or none: no limit")
      ->check(CheckMemoryLimit)
      ->envname("LUTHIER_MEMORY_LIMIT")
      ->capture_default_str();
  app->add_option("--http-listen", flags->options.http_listen,
                  "IP:port of the page and of all calls over HTTP, as http://IP:port (default: none)")
      ->envname("LUTHIER_HTTP_LISTEN");
  app->add_option("--http-host", flags->options.http_hosts,
                  "A name of this machine by which browsers reach that port; may be repeated")
      ->take_all()
      ->delimiter(' ')
      ->envname("LUTHIER_HTTP_HOSTS");
  app->add_option("--metrics-listen", flags->options.metrics_listen,
                  "IP:port to serve metrics for Prometheus on, as http://IP:port/metrics (default: none)")
      ->envname("LUTHIER_METRICS_LISTEN");
  app->add_flag(
      "--exit-with-stdin", flags->exit_with_stdin,
      "Stop when standard input ends: for a program that runs a coordinator of its own and holds the other end");
  app->add_option("--log-level", flags->log_level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
}

// Completes flags->options by the other flags, whose values are right.
void Resolve(Flags* flags) {
  base::LogLevel level;
  base::ParseLogLevel(flags->log_level, &level);
  base::SetLogLevel(level);
  const MemoryLimit limit = flags->memory_limit == "auto"
                                ? DefaultMemoryLimit()
                                : MemoryLimit{ParseMemoryLimit(flags->memory_limit), "--memory-limit"};
  base::LogInfo("memory_limit",
                {{"mebibytes", limit.bytes == 0 ? "none" : std::to_string(limit.bytes >> 20)}, {"from", limit.source}});
  ServerOptions& options = flags->options;
  options.memory_limit = limit.bytes;
  options.suggest_deadline = absl::Seconds(flags->suggest_deadline);
  options.farewell = absl::Milliseconds(500);
  if (flags->memory) options.data_dir.clear();
  using access::Auth;
  options.auth = flags->auth == "off" ? Auth::kOff : flags->auth == "required" ? Auth::kRequired : Auth::kAuto;
}

// Blocks the signals that end the coordinator, before any thread starts, so that all inherit it.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A file that may not grow is trouble with the disk, which is told.
  return signals;
}

}  // namespace

int Main(int argc, char** argv) {
  base::KeepFreedMemory();
  base::LimitArenas(kArenas);
  ReserveMemory();
  wire::KeepWaitsSteady();
  Flags flags;
  CLI::App app{
      "The Luthier coordinator: keeps studies, decides which settings to try, and grants trials to workers.\n"
      "Example: luthierd --listen localhost:7790 --data-dir /var/lib/luthier",
      "luthierd"};
  AddServingFlags(&app, &flags);
  AddRunningFlags(&app, &flags);
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) return *code;
  const bool unasked = app.count("--data-dir") == 0 && !flags.memory;
  if (unasked && OthersHaveDefaultDirectory()) return command_line::kExitUsage;
  Resolve(&flags);
  umask(077);  // The database, its backups and the socket are for their owner, whatever the directory allows.

  const sigset_t signals = BlockSignals();
  storage::EndAtLostPages();

  auto server = Server::Start(flags.options);
  if (!server.ok()) {
    // Fields of such errors are options.
    const bool usage = absl::IsInvalidArgument(server.status());
    std::cerr << "luthierd: " << (usage ? "--" : "") << server.status().message() << "\n";
    return usage ? command_line::kExitUsage : 1;
  }
  std::cout << "luthierd: serving on " << (*server)->address() << std::endl;
  TellSupervisor("READY=1");
  if (flags.exit_with_stdin) std::thread(StopWithStdin).detach();
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  base::LogInfo("stopping", {{"signal", std::to_string(signal_number)}});
  TellSupervisor("STOPPING=1");
  // A second signal ends the process at once; that is always safe.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  (*server)->Stop();
  return 0;
}

}  // namespace luthier::server
