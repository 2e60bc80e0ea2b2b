// Verbs of the server and of its users, and those about this program.
#include "client/cli/commands/commands.h"
#include "client/cli/verbs/verbs.h"

namespace luthier::cli {
namespace {

void CompletionOptions(CLI::App& app, Options& o) {
  app.add_option("SHELL", o.shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

void PkiOptions(CLI::App& app, Options& o) {
  app.add_option("--out", o.out, "Directory of the authority")->required();
}

void PkiIssueOptions(CLI::App& app, Options& o) {
  PkiOptions(app, o);
  app.add_option("--server", o.hosts, "Name or IP address by which clients reach the server; may be repeated")
      ->take_all();
  app.add_option("--client", o.name, "Name of a client or worker");
}

void LifetimeOption(CLI::App& app, Options& o) {
  command_line::AddDuration(app, "--lifetime", &o.lifetime, "How long it is valid, as 720h (default: 90 days)");
}

void TokenCreateOptions(CLI::App& app, Options& o) {
  app.add_option("--name", o.name, "Whose it is; workers with it are called NAME/WORKER")->required();
  app.add_option("--role", o.roles, "viewer, user, maintainer, worker or admin; may be repeated")
      ->required()
      ->take_all()
      ->delimiter(',');
  app.add_flag("--commands", o.commands, "Its holder may create studies with a command, which runs on workers");
  app.add_option("--certificate", o.certificate,
                 "PEM file with the holder's certificate: the token is refused without it (luthierd --tls-client-ca)");
  LifetimeOption(app, o);
}

void TokenOption(CLI::App& app, Options& o) {
  app.add_option("ID", o.token, "The token's id, as luthier admin token list shows it")->required();
}

void TokenRotateOptions(CLI::App& app, Options& o) {
  TokenOption(app, o);
  command_line::AddDuration(app, "--overlap", &o.overlap,
                            "How long the old secret stays valid, as 24h (default: not at all)");
  LifetimeOption(app, o);
}

void ProjectOption(CLI::App& app, Options& o) {
  app.add_option("NAME", o.name, "Name of the project")->required();
  app.add_option("--max-studies", o.quota_studies, "Studies that it may have; 0: no limit of its own");
  app.add_option("--max-running", o.quota_running, "Trials that may run at once; asks for more wait");
  app.add_option("--max-asks", o.quota_waiting, "Asks that may wait; more are told to come back");
  app.add_option("--max-bytes", o.quota_bytes,
                 "Bytes of results and curves that it may keep, about; then no new trials");
  app.add_option("--max-cpu", o.quota_cpu,
                 "Processors for its suggestions, on average over a minute: 0.5 is half of one");
}

void BackupOptions(CLI::App& app, Options& o) {
  app.add_option("--out", o.out, "Folder to make, with the copy in it")->required();
}

void RestoreOptions(CLI::App& app, Options& o) {
  app.add_option("FOLDER", o.file, "Folder that luthier admin backup made")->required();
}

void HealthOptions(CLI::App& app, Options& o) {
  command_line::AddDuration(app, "--timeout", &o.health_timeout, "How long to wait for an answer (default: 5s)");
}

void AuditOptions(CLI::App& app, Options& o) {
  app.add_option("--count", o.entries, "Entries")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--only", o.audit_kind, "changes, or refusals")->check(CLI::IsMember({"changes", "refusals"}));
}

std::vector<Verb> ServerVerbs() {
  return {
      {{"server", "info"},
       "Version, encryption, and as what the server knows you",
       "luthier server info",
       None,
       ServerInfo},
      {{"health"},
       "Whether a coordinator is ready to write: exit code 0, else 1, or 3 where none answers",
       "luthier health --db /var/lib/luthier",
       HealthOptions,
       Health},
      {{"admin", "pki", "init"},
       "Make a private certificate authority",
       "luthier admin pki init --out pki",
       PkiOptions,
       AdminPkiInit},
      {{"admin", "pki", "issue"},
       "Issue a certificate for a server, or for a client or worker",
       "luthier admin pki issue --out pki --server db1.example",
       PkiIssueOptions,
       AdminPkiIssue},
  };
}

std::vector<Verb> AccessVerbs() {
  return {
      {{"admin", "token", "create"},
       "Make a token; it is printed once",
       "luthier admin token create --role worker --name gpu1 --db /var/lib/luthier > gpu1.token",
       TokenCreateOptions,
       AdminTokenCreate},
      {{"admin", "token", "list"},
       "The tokens, without their secrets",
       "luthier admin token list",
       None,
       AdminTokenList},
      {{"admin", "token", "rotate"},
       "Give a token a new secret",
       "luthier admin token rotate 0123456789abcdef --overlap 24h",
       TokenRotateOptions,
       AdminTokenRotate},
      {{"admin", "token", "revoke"},
       "Refuse a token from now on",
       "luthier admin token revoke 0123456789abcdef",
       TokenOption,
       AdminTokenRevoke},
      {{"admin", "project", "create"},
       "Make a project",
       "luthier admin project create vision",
       ProjectOption,
       AdminProjectCreate},
      {{"admin", "project", "update"},
       "Give a project other quotas",
       "luthier admin project update vision --max-running 32",
       ProjectOption,
       AdminProjectUpdate},
      {{"admin", "project", "list"}, "The projects", "luthier admin project list", None, AdminProjectList},
      {{"admin", "audit"},
       "What was done and refused, newest first, a JSON object a line",
       "luthier admin audit --count 20",
       AuditOptions,
       AdminAudit},
  };
}

std::vector<Verb> StoreVerbs() {
  return {
      {{"admin", "backup"},
       "Copy a data directory into a new folder, while its coordinator runs or not",
       "luthier admin backup --db /var/lib/luthier --out /var/backups/luthier-monday",
       BackupOptions,
       AdminBackup},
      {{"admin", "restore"},
       "Make a new data directory of a backup",
       "luthier admin restore /var/backups/luthier-monday --db /var/lib/luthier-restored",
       RestoreOptions,
       AdminRestore},
      {{"admin", "doctor"},
       "Look a data directory or a backup over for damage: exit code 0 if it is whole, else 1",
       "luthier admin doctor --db /var/lib/luthier",
       None,
       AdminDoctor},
      {{"completion"},
       "A script that completes verbs and options in a shell",
       "luthier completion bash > ~/.local/share/bash-completion/completions/luthier",
       CompletionOptions,
       nullptr},  // RunCli handles it: it needs the command line itself.
      {{"manual"}, "The manual page of this program", "luthier manual | man -l -", None, nullptr},  // As completion.
      {{"version"}, "The version of this program", "luthier version", None, Version},
  };
}

}  // namespace

std::vector<Verb> AdminVerbs() {
  return Joined({ServerVerbs(), AccessVerbs(), StoreVerbs()});
}

}  // namespace luthier::cli
