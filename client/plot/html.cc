#include "client/plot/html.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/web/assets.h"
#include "lib/base/check.h"

namespace luthier::plot {
namespace {

const web::Asset& Known(absl::string_view name) {
  const web::Asset* const asset = web::FindAsset(name);
  LUTHIER_CHECK(asset != nullptr);
  return *asset;
}

// Returns the words by which a policy lets a text in the page pass.
std::string Hash(const web::Asset& asset) {
  return absl::StrCat("'sha256-", absl::Base64Escape(absl::HexStringToBytes(asset.sha256)), "'");
}

}  // namespace

std::string HtmlPage(const Figure& figure) {
  const web::Asset& script = Known("plot.js");
  const web::Asset& style = Known("plot.css");
  // Texts of users can't end the block of data, or be taken for a comment in it.
  const std::string data =
      absl::StrReplaceAll(ToJson(figure).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                          {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src ",
      Hash(script), "; style-src ", Hash(style),
      "; base-uri 'none'; form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>Luthier</title>\n<style>",
      style.bytes, "</style>\n</head>\n<body>\n<script type=\"application/json\" id=\"figure\">", data,
      "</script>\n<script>", script.bytes, "</script>\n</body>\n</html>\n");
}

}  // namespace luthier::plot
