#include "client/cli/fleet/fleet.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lib/base/hash.h"

namespace luthier::cli {
namespace {

std::string SecondsFlag(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(duration), "s");
}

std::string PoolName(const Fleet& fleet) {
  return fleet.pool.empty() ? "default" : fleet.pool;
}

}  // namespace

std::string Fleet::WorksFor() const {
  std::string text;
  if (!study.empty()) absl::StrAppend(&text, "study ", study, " in ");
  absl::StrAppend(&text, "pool ", PoolName(*this));
  if (study.empty() && !project.empty()) absl::StrAppend(&text, " of project ", project);
  return text;
}

std::string Fleet::Name() const {
  constexpr size_t kShown = 30;
  std::string shown = study.empty() ? PoolName(*this) : study;
  for (char& c : shown) c = absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '-';
  shown = shown.substr(0, kShown);
  while (!shown.empty() && shown.back() == '-') shown.pop_back();
  return absl::StrCat("luthier-", shown, "-", base::Sha256Hex(WorksFor()).substr(0, 8));
}

std::string Fleet::Settings() const {
  std::vector<std::string> parts =
      WorkerFlags(*this, {security.token.empty() ? "" : "token", security.tls_ca, security.tls_cert, security.tls_key},
                  absl::StrCat(gpus));
  parts.push_back(image);
  return base::Sha256Hex(absl::StrJoin(parts, "\n")).substr(0, 12);
}

std::vector<std::string> WorkerFlags(const Fleet& fleet, const AccessFiles& files, absl::string_view gpus) {
  std::vector<std::string> flags = {"--server", fleet.server};
  const auto add = [&flags](const char* flag, const std::string& value) {
    if (!value.empty()) flags.insert(flags.end(), {flag, value});
  };
  add("--tls-ca", files.tls_ca);
  add("--tls-cert", files.tls_cert);
  add("--tls-key", files.tls_key);
  add("--tls-server-name", fleet.security.tls_server_name);
  add("--token-file", files.token);
  if (fleet.security.accept_plaintext) flags.emplace_back("--accept-plaintext");
  add("--pool", fleet.pool);
  if (fleet.study.empty()) {
    add("--project", fleet.project);
  } else {
    flags.insert(flags.end(), {"--study", fleet.study, "--exit-when-done"});
  }
  if (fleet.gpus > 0) add("--gpus", std::string(gpus));
  add("--slots", absl::StrCat(fleet.TrialsAtOnce()));
  if (fleet.exit_when_idle != absl::InfiniteDuration()) add("--exit-when-idle", SecondsFlag(fleet.exit_when_idle));
  add("--drain-timeout", SecondsFlag(fleet.drain_timeout));
  add("--stop-grace", SecondsFlag(fleet.stop_grace));
  add("--drain-exit-code", "75");
  flags.insert(flags.end(), fleet.worker_flags.begin(), fleet.worker_flags.end());
  return flags;
}

std::string ShellWord(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace luthier::cli
