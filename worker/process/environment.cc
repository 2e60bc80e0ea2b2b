#include "worker/process/environment.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "lib/base/error.h"

namespace luthier::worker {
namespace {

// docs/reference/worker.md has the same list.
constexpr const char* kNeeded[] = {
    // User and place.
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PWD", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR",
    "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
    // Interpreters and their modules.
    "PYTHON*", "VIRTUAL_ENV", "CONDA_*", "MAMBA_*", "R_*", "JULIA_*", "JAVA_*", "CLASSPATH", "NODE_PATH", "PERL5LIB",
    "RUBYLIB", "GEM_HOME", "GEM_PATH", "MODULEPATH", "LOADEDMODULES", "LMOD_*", "MPLBACKEND", "MPLCONFIGDIR",
    // Libraries, threads and memory.
    "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "BLIS_*", "NUMEXPR_*",
    "NUMBA_*", "MALLOC_*", "GLIBC_TUNABLES",
    // Accelerators and frameworks.
    "CUDA_*", "CUDNN_*", "CUBLAS_*", "NVIDIA_*", "NCCL_*", "ROCM_*", "ROCR_*", "HIP_*", "HSA_*", "MIOPEN_*", "GPU_*",
    "ONEAPI_*", "ZE_*", "SYCL_*", "TPU_*", "XLA_*", "JAX_*", "TF_*", "TORCH_*", "PYTORCH_*", "KERAS_*", "TRITON_*",
    "HF_*", "TRANSFORMERS_*", "TOKENIZERS_*",
    // Proxies and certificates.
    "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "ftp_proxy",
    "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    // The batch system.
    "SLURM_*", "PBS_*", "LSB_*", "SGE_*", "UCX_*", "FI_*"};

// Words of names, and parts of glued ones (NVIDIAKEY, PASSWORDS, apiToken). docs/reference/worker.md has the same
// lists.
constexpr const char* kSecretWords[] = {"KEY", "KEYS", "PASS",  "PAT",    "PATS",    "AUTH", "PW",
                                        "PWD", "CRED", "CREDS", "COOKIE", "COOKIES", "OTP"};
constexpr const char* kSecretParts[] = {"TOKEN",      "SECRET",        "PASSWORD", "PASSWD",     "PASSWRD",
                                        "PASSPHRASE", "PASSCODE",      "PSWD",     "CREDENTIAL", "APIKEY",
                                        "JWT",        "AUTHORIZATION", "BEARER"};
constexpr const char* kSecretEnds[] = {"KEY", "KEYS", "PASS", "PAT", "AUTH", "PWD", "COOKIE"};
constexpr const char* kHarmless[] = {"COMPAT", "BYPASS", "COMPASS"};

// Variables of a shell itself, which are not reported.
constexpr const char* kShells[] = {"_", "OLDPWD", "SHLVL"};

template <typename Patterns>
bool MatchesAny(const std::string& name, const Patterns& patterns) {
  return std::any_of(std::begin(patterns), std::end(patterns),
                     [&](const auto& pattern) { return fnmatch(std::string(pattern).c_str(), name.c_str(), 0) == 0; });
}

bool IsOneOf(absl::string_view word, absl::Span<const char* const> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// True if `text`, a name of a variable or within a value, names a secret.
bool NamesSecret(absl::string_view text) {
  if (text == "PWD") return false;  // The current folder.
  const auto other = [](char c) { return !absl::ascii_isalpha(static_cast<unsigned char>(c)); };
  std::string upper = absl::AsciiStrToUpper(text);
  std::replace_if(upper.begin(), upper.end(), other, '_');
  for (absl::string_view word : absl::StrSplit(upper, '_', absl::SkipEmpty())) {
    if (IsOneOf(word, kHarmless)) continue;
    if (IsOneOf(word, kSecretWords)) return true;
    if (absl::StartsWith(word, "TOKENIZ")) continue;
    for (const char* part : kSecretParts) {
      if (absl::StrContains(word, part)) return true;
    }
    for (const char* end : kSecretEnds) {
      if (absl::EndsWith(word, end)) return true;
    }
  }
  return false;
}

// True for me:word@host, with or without a scheme before it. Behind a scheme a name without a word counts, too, since
// it may be a secret.
bool HasCredentials(absl::string_view value) {
  for (const absl::string_view part : absl::StrSplit(value, absl::ByAnyChar(" \t\n,;'\"|"))) {
    const size_t at = part.rfind('@');
    if (at != absl::string_view::npos && absl::StrContains(part.substr(0, at), ':')) return true;
  }
  return false;
}

// True for password=word, -Dpassword=word, "password": "word", --password word.
bool SetsSecret(absl::string_view value) {
  const auto part_of_name = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-.", absl::string_view(&c, 1));
  };
  for (size_t begin = 0; begin < value.size();) {
    size_t end = begin;
    while (end < value.size() && part_of_name(value[end])) ++end;
    if (end == begin) {
      ++begin;
      continue;
    }
    const absl::string_view name = value.substr(begin, end - begin);
    const size_t next = value.find_first_not_of("'\" ", end);
    const bool option = name[0] == '-' && end < value.size() && value[end] == ' ';
    const bool set = next != absl::string_view::npos && absl::StrContains("=:", value.substr(next, 1));
    if ((option || set) && NamesSecret(name)) return true;
    begin = end;
  }
  return false;
}

// True for variables with lists of folders and modules, which have colons, and names of packages with an @ (gcc@13).
bool IsList(absl::string_view name) {
  for (const char* end : {"PATH", "DIRS", "MODULES", "LIB", "PRELOAD"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return false;
}

bool LooksSecret(absl::string_view name, absl::string_view value) {
  if (NamesSecret(name)) return true;
  if (absl::EndsWithIgnoreCase(name, "proxy") && absl::StrContains(value, '@')) return true;
  if (IsList(name) && !absl::StrContains(value, "://")) return false;
  return HasCredentials(value) || SetsSecret(value);
}

}  // namespace

absl::Status CheckEnvironmentPattern(const std::string& pattern) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_*?", c);
  };
  if (pattern.empty() || absl::ascii_isdigit(static_cast<unsigned char>(pattern[0])) ||
      !std::all_of(pattern.begin(), pattern.end(), fits)) {
    // The value is not repeated in the message to a user who wrote NAME=value.
    return absl::InvalidArgumentError(
        absl::StrCat("--env-allow: ", base::Quote(pattern.substr(0, pattern.find('='))),
                     pattern.find('=') == std::string::npos ? "" : " with a value",
                     " is no name of a variable, such as WANDB_API_KEY or 'AWS_*'; a value is set in the worker's own "
                     "environment, or in the study's"));
  }
  if (absl::StartsWith(pattern, "LUTHIER_")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--env-allow: ", pattern,
                     " is the worker's own, and no command gets LUTHIER_* of it; give a command a token of "
                     "its own in a variable with another name, or in the study's environment"));
  }
  return absl::OkStatus();
}

InheritedVariables SortEnvironment(const std::vector<std::string>& environment,
                                   const std::vector<std::string>& allowed) {
  InheritedVariables out;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos || absl::StartsWith(entry, "LUTHIER_")) continue;
    const std::string name = entry.substr(0, equals);
    const absl::string_view value = absl::string_view(entry).substr(equals + 1);
    if (MatchesAny(name, allowed) || (MatchesAny(name, kNeeded) && !LooksSecret(name, value))) {
      out.passed.push_back(entry);
    } else if (std::find(std::begin(kShells), std::end(kShells), name) == std::end(kShells)) {
      out.withheld.push_back(name);
    }
  }
  std::sort(out.withheld.begin(), out.withheld.end());
  return out;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

bool SpeaksOf(absl::string_view text, absl::string_view name) {
  const auto part = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(name); at != absl::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

}  // namespace luthier::worker
