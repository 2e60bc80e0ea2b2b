#include "lib/wire/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

YamlPosition ToPosition(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column + 1};
}

// Builds the tree from the parser's events. After the first error the remaining events are ignored.
class TreeBuilder final : public YAML::EventHandler {
 public:
  bool failed() const { return failed_; }
  const YamlError& error() const { return error_; }
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { RefuseAnchor(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { RefuseAnchor(mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    YamlNode node;
    node.at = ToPosition(mark);
    Add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.at = ToPosition(mark);
    node.text = value;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!node.quoted && tag != "?" && !tag.empty()) return RefuseTag(mark, tag);
    Add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, "tag:yaml.org,2002:seq", YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Open(mark, tag, "tag:yaml.org,2002:map", YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Container {
    YamlNode node;
    std::optional<YamlNode> key;               // Maps: read, its value is still to come.
    std::map<std::string, YamlPosition> seen;  // Maps: the keys so far.
  };

  void Fail(YamlPosition at, std::string what) {
    if (failed_) return;
    failed_ = true;
    error_ = {at, std::move(what)};
    open_.clear();
  }

  void RefuseAnchor(const YAML::Mark& mark) {
    Fail(ToPosition(mark), "anchors (&name) and aliases (*name) are not supported; write the value out");
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    Fail(ToPosition(mark), absl::StrCat("the tag ", base::Quote(tag), " is not supported; leave it out"));
  }

  void Open(const YAML::Mark& mark, const std::string& tag, const char* own_tag, YamlNode::Kind kind) {
    if (failed_) return;
    if (!tag.empty() && tag != "?" && tag != "!" && tag != own_tag) return RefuseTag(mark, tag);
    if (open_.size() >= kMaxYamlDepth) {
      return Fail(ToPosition(mark), absl::StrCat("is nested more than ", kMaxYamlDepth, " levels deep"));
    }
    YamlNode node;
    node.kind = kind;
    node.at = ToPosition(mark);
    open_.push_back({std::move(node), std::nullopt, {}});
  }

  void Close() {
    if (failed_) return;
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Add(std::move(node));
  }

  // Adds a complete node to the open container.
  void Add(YamlNode node) {
    if (failed_) return;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Container& container = open_.back();
    if (container.node.kind == YamlNode::Kind::kList) {
      container.node.items.push_back(std::move(node));
    } else if (container.key) {
      // The parser puts a missing value where the next token is.
      if (node.kind == YamlNode::Kind::kNull) node.at = container.key->at;
      container.node.keys.push_back(*std::move(container.key));
      container.node.items.push_back(std::move(node));
      container.key.reset();
    } else {
      AddKey(&container, std::move(node));
    }
  }

  void AddKey(Container* container, YamlNode node) {
    if (node.kind == YamlNode::Kind::kNull) return Fail(node.at, "a key is missing before ':'");
    if (node.kind != YamlNode::Kind::kScalar) return Fail(node.at, "a key must be a name, not a list or a map");
    const auto [first, fresh] = container->seen.emplace(node.text, node.at);
    if (!fresh) {
      return Fail(node.at, absl::StrCat(base::Quote(node.text), " is given twice; the first time in line ",
                                        first->second.line, "; keep one"));
    }
    container->key = std::move(node);
  }

  YamlNode root_;
  std::vector<Container> open_;
  bool failed_ = false;
  YamlError error_;
};

// Editors that indent with tabs are the most frequent reason for a parser's complaint, and its text never says so.
const char* TabHint(absl::string_view text, YamlPosition at) {
  for (int line = 1; line < at.line; ++line) text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
  const absl::string_view margin = text.substr(0, text.find_first_not_of(" \t"));
  return absl::StrContains(margin, "\t") ? "; indent with spaces, not tabs" : "";
}

// Checks the bytes themselves.
std::optional<YamlError> CheckBytes(absl::string_view text) {
  if (text.size() > kMaxYamlBytes) {
    return YamlError{{}, absl::StrCat("is larger than 1 MiB (", text.size(), " bytes); is it the right file?")};
  }
  const size_t bad = InvalidUtf8At(text);
  YamlPosition at{1, 1};
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (i == bad) return YamlError{at, absl::StrFormat("byte 0x%02x is not UTF-8; is it a text file?", c)};
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F) {
      return YamlError{at, absl::StrFormat("control character 0x%02x; is it a text file?", c)};
    }
    if (c == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      at.column += (c & 0xC0) != 0x80;
    }
  }
  return std::nullopt;
}

}  // namespace

bool ParseYamlTree(absl::string_view text, YamlNode* root, YamlError* error) {
  if (const std::optional<YamlError> bad = CheckBytes(text)) {
    *error = *bad;
    return false;
  }
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
  TreeBuilder builder;
  TreeBuilder second;
  bool more = false;
  try {  // yaml-cpp reports errors only by throwing.
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (!builder.failed()) more = parser.HandleNextDocument(second);
  } catch (const YAML::Exception& e) {
    // An error that was found before the parser stumbled is the better explanation.
    const YamlPosition at = ToPosition(e.mark);
    *error =
        builder.failed() ? builder.error() : YamlError{at, absl::StrCat("is not YAML: ", e.msg, TabHint(text, at))};
    return false;
  } catch (const std::exception& e) {
    *error = {{}, absl::StrCat("is not YAML: ", e.what())};
    return false;
  }
  if (builder.failed()) {
    *error = builder.error();
    return false;
  }
  if (more) {
    *error = {second.TakeRoot().at, "a second document begins here; give one"};
    return false;
  }
  *root = builder.TakeRoot();
  return true;
}

}  // namespace luthier::wire
