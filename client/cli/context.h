#ifndef LUTHIER_CLIENT_CLI_CONTEXT_H_
#define LUTHIER_CLIENT_CLI_CONTEXT_H_

#include <istream>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/environment.h"
#include "client/cli/local_server.h"
#include "client/cli/options.h"
#include "client/cli/table.h"
#include "client/cpp/client.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::cli {

// The things that a verb's handler works with.
class Context {
 public:
  Context(const Environment& environment, const Options& options) : environment_(environment), options_(options) {}

  const Environment& environment() const { return environment_; }
  const Options& options() const { return options_; }
  std::ostream& out() const { return *environment_.out; }
  std::ostream& err() const { return *environment_.err; }
  std::istream& in() const { return *environment_.in; }
  // True if results are for programs: JSON or YAML, by Print.
  bool structured() const { return options_.format == OutputFormat::kJson || options_.format == OutputFormat::kYaml; }
  // True if results are for people: a table, or text.
  bool shown() const { return options_.format == OutputFormat::kTable || options_.format == OutputFormat::kWide; }
  // True if only names are wanted.
  bool names() const { return options_.format == OutputFormat::kName; }
  // True if all numbers of vectors are wanted.
  bool wide() const { return options_.wide || options_.format == OutputFormat::kWide; }
  // Returns the room that tables have: COLUMNS, if it is a number; else the terminal's width; without a terminal no
  // limit, since output for programs must be whole.
  TableRoom room() const;
  // True if the output is a terminal that has colours, and NO_COLOR is not set.
  bool colour() const;

  // Returns a client of --server, or of the coordinator of --db, which is started in this process if need be.
  absl::StatusOr<client::Client*> client();
  // Returns a client for verbs about tokens and projects.
  absl::StatusOr<client::Client*> admin_client();
  // Sets *project, unless it was given. Studies without a project are those of the caller's token, so if a token is
  // used and a verb names such a study, it asks the server for the token's project.
  absl::Status FindProject(std::string* project);
  // Returns how calls to the server are protected, by options, else variables. A usage error for files that can't be
  // read, and if no server is named that may be used.
  absl::StatusOr<wire::ChannelSecurity> Security() const;
  // Makes the client talk to `local` from now on.
  absl::Status UseLocal(std::unique_ptr<LocalServer> local);
  // True if the client talks to a coordinator of this process.
  bool serves() const { return local_ != nullptr && local_->own(); }
  void Disconnect();
  // Returns the key of this server's studies in the token store.
  std::string ServerKey() const;

  // Returns the text of a file, "-" for standard input; at most a little more than a study file may have.
  absl::StatusOr<std::string> ReadFile(const std::string& path) const;
  // Returns at most `most` bytes of the text, and one more if it is longer.
  absl::StatusOr<std::string> ReadFile(const std::string& path, size_t most) const;
  // The file of --file as a study, with its id: `name`, or the slug of the file's stem.
  struct StudyToCreate {
    wire::StudyFile file;
    std::string id;
  };
  absl::StatusOr<StudyToCreate> ReadStudy(const std::string& path, const std::string& name) const;

  // Prints a table in the format that was asked for, except JSON and YAML. Says on `err` which columns had no room.
  void Print(const Table& table) const;
  // Says on `err` which columns of a table had no room, if there are any.
  void SayLeftOut(const TableShape& shape) const;
  // Prints a value, if structured().
  void Print(const nlohmann::ordered_json& value) const;
  // Prints an element of a list as it comes, if structured(). `first`: true if no element was printed before. For an
  // empty list ClosePrintedList alone is called.
  void PrintElement(const nlohmann::ordered_json& element, bool first) const;
  void ClosePrintedList(bool empty) const;

 private:
  absl::StatusOr<client::Client*> Connect();

  const Environment& environment_;
  const Options& options_;
  std::unique_ptr<LocalServer> local_;
  std::unique_ptr<client::Client> client_;
};

// Returns the error of a command line whose options are valid but contradict each other: exit code 2.
absl::Status UsageError(absl::string_view option, absl::string_view what);
// Turns an INVALID_ARGUMENT of lib/wire, whose fields are options without their dashes, and variables, into such an
// error.
absl::Status UsageError(const absl::Status& status);

// Tells a person what went wrong and what to do next; returns the exit code.
int Explain(const absl::Status& status, const Options& options, std::ostream& err);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_CONTEXT_H_
