// `luthier ui`, and the page of `luthier run --ui`.
#include "client/cli/commands/ui.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/follow.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"

namespace luthier::cli {
namespace {

// True if nobody named a server or a database, there is no server of this folder, and `luthier run` left a database.
bool MeansDatabaseOfFolder(const Options& options) {
  std::error_code error;
  return options.db.empty() && options.security.only_own && !absl::StartsWith(options.server, "unix:") &&
         std::filesystem::exists(absl::StrCat(kDefaultDirectory, "/luthier.db"), error);
}

}  // namespace

absl::StatusOr<std::string> PageAddress(client::Client& client, const std::string& study) {
  LUTHIER_ASSIGN_OR_RETURN(const v1::ServerInfo info, client.GetServerInfo());
  const bool admin = std::find(info.roles().begin(), info.roles().end(), "admin") != info.roles().end();
  std::string url = info.page_url(), token;
  // A token is not made where others could read it.
  if (!info.plaintext() && (admin || info.caller() == "socket")) {
    LUTHIER_ASSIGN_OR_RETURN(const v1::OpenPageResponse page, client.OpenPage());
    url = page.url();
    token = page.token();
  }
  if (url.empty()) {
    return absl::FailedPreconditionError(
        "this coordinator has no page: start luthierd with --http-listen 127.0.0.1:7792 "
        "(docs/reference/http.md)");
  }
  const std::string place =
      study.empty() ? "/" : absl::StrCat("/studies/", study::ProjectOf(study), "/", study::ShortId(study));
  return absl::StrCat(url, "/#", token.empty() ? "" : absl::StrCat("token=", token, "&"), place);
}

absl::StatusOr<int> Ui(Context& context) {
  SignalScope signals;  // Before any thread starts.
  const Options& options = context.options();
  if (MeansDatabaseOfFolder(options)) {
    LUTHIER_RETURN_IF_ERROR(CheckDefaultDirectory());
    LUTHIER_ASSIGN_OR_RETURN(auto server,
                             LocalServer::Start(DataDirectory(kDefaultDirectory), LocalServer::Use::kLook));
    LUTHIER_RETURN_IF_ERROR(context.UseLocal(std::move(server)));
    context.err() << "the database of this folder, " << kDefaultDirectory << "; others: --db DIR or --server ADDRESS\n";
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  if (!options.study.empty()) LUTHIER_RETURN_IF_ERROR(client->GetStudy(options.study).status());
  LUTHIER_ASSIGN_OR_RETURN(const std::string address, PageAddress(*client, options.study));
  if (context.structured()) {
    context.Print(nlohmann::ordered_json{{"url", address}});
  } else {
    context.out() << address << "\n";
  }
  context.out().flush();
  if (context.environment().open_browser) context.environment().open_browser(address);
  if (!context.serves()) return kExitDone;
  context.err() << "the page is there until Ctrl-C\n";
  while (!signals.Wait(absl::Hours(1))) {
  }
  return kExitDone;
}

}  // namespace luthier::cli
