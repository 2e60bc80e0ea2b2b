#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "lib/base/error.h"
#include "lib/wire/token_file.h"
#include "server/access/caller.h"
#include "server/access/refusals.h"
#include "server/storage/connection.h"
#include "tests/server/access/access_fixture.h"
#include "tests/server/metrics/scrape.h"

namespace luthier::access::testing {
namespace {

TEST(Token, IsParsedStrictly) {
  const TokenText text = NewToken();
  const auto parsed = ParseToken(text.ToString());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->id, text.id);
  EXPECT_EQ(parsed->secret, text.secret);
  EXPECT_NE(NewToken().ToString(), text.ToString());
  const std::string whole = text.ToString();
  for (const std::string& bad : {std::string(), std::string("lut_"), whole + "A", whole.substr(1), " " + whole,
                                 absl::StrCat(whole.substr(0, whole.size() - 1), "\n"), std::string(64, 'x')}) {
    EXPECT_FALSE(ParseToken(bad).has_value()) << bad;
  }
}

TEST(Token, HashesAreCompared) {
  EXPECT_TRUE(SameHash(HashOf("a"), HashOf("a")));
  EXPECT_FALSE(SameHash(HashOf("a"), HashOf("b")));
  EXPECT_FALSE(SameHash("", ""));
  EXPECT_FALSE(SameHash(HashOf("a"), ""));
}

TEST(Caller, HasNamesOfItsOwn) {
  const Caller nobody;
  EXPECT_EQ(nobody.Worker("w", "vision"), "w");
  EXPECT_EQ(nobody.RequestId("r"), "r");
  EXPECT_EQ(nobody.Lease("0123456789abcdef"), "0123456789abcdef");
  Caller alice{"id1", "alice", "default", {"default"}, {Role::kWorker}, false};
  Caller bob{"id2", "alice", "vision", {"vision"}, {Role::kWorker}, false};
  EXPECT_EQ(alice.Worker("w", "default"), "alice/w");
  EXPECT_EQ(bob.Worker("w", "vision"), "vision/alice/w");
  EXPECT_EQ(bob.Worker("w", "speech"), "vision/alice/w") << "it is not for that project";
  Caller both{"id3", "gpu1", "vision", {"vision", "speech", "default"}, {Role::kWorker}, false};
  EXPECT_EQ(both.Worker("w", "vision"), "vision/gpu1/w");
  EXPECT_EQ(both.Worker("w", "speech"), "speech/gpu1/w");
  EXPECT_EQ(both.Worker("w", "default"), "gpu1/w");
  EXPECT_NE(alice.RequestId("r"), bob.RequestId("r"));
  EXPECT_EQ(alice.RequestId(""), "");
  const std::string lease = alice.Lease("0123456789abcdef");
  EXPECT_EQ(alice.Lease(lease), "0123456789abcdef");
  EXPECT_NE(bob.Lease(lease), "0123456789abcdef");
  EXPECT_EQ(lease.size(), 16u);
}

TEST(Refusals, AreSlowedByAddress) {
  base::ManualClock clock;
  Refusals refusals(&clock);
  for (int i = 0; i < Refusals::kAtOnce; ++i) EXPECT_EQ(refusals.Count("a"), absl::ZeroDuration()) << i;
  EXPECT_GT(refusals.Count("a"), absl::ZeroDuration());
  EXPECT_EQ(refusals.Count("b"), absl::ZeroDuration());
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(refusals.Count("a"), absl::ZeroDuration());
}

v1::SuggestRequest Ask(const std::string& study, const std::string& worker, const std::string& request_id) {
  v1::SuggestRequest ask;
  ask.set_study(study);
  ask.set_worker(worker);
  ask.set_request_id(request_id);
  return ask;
}

class PeopleTest : public AccessTest {
 protected:
  grpc::Status Create(const std::string& who, const v1::CreateStudyRequest& request) {
    v1::Study study;
    return v1::StudyService::NewStub(Channel(who))->CreateStudy(Context().get(), request, &study);
  }
};

TEST_F(PeopleTest, LeasesAndRequestsBelongToWhoMadeThem) {
  ASSERT_TRUE(Create("user", Study("s")).ok());
  const std::string name = "projects/vision/studies/s";
  const auto worker = v1::WorkerService::NewStub(Channel("worker")), both = v1::WorkerService::NewStub(Channel("both"));
  v1::SuggestResponse mine, again, theirs;
  ASSERT_TRUE(worker->Suggest(Context().get(), Ask(name, "w", "r1"), &mine).ok());
  ASSERT_EQ(mine.leases_size(), 1);
  // The same request once more is the same lease; of somebody else it is another's.
  ASSERT_TRUE(worker->Suggest(Context().get(), Ask(name, "w", "r1"), &again).ok());
  ASSERT_EQ(again.leases_size(), 1);
  EXPECT_EQ(again.leases(0).token(), mine.leases(0).token());
  ASSERT_TRUE(both->Suggest(Context().get(), Ask(name, "w", "r1"), &theirs).ok());
  ASSERT_EQ(theirs.leases_size(), 1);
  EXPECT_NE(theirs.leases(0).trial().name(), mine.leases(0).trial().name());
  // Who finds out a lease can't use it.
  v1::CompleteRequest complete;
  complete.set_trial(mine.leases(0).trial().name());
  complete.set_token(mine.leases(0).token());
  (*complete.mutable_measurement()->mutable_metrics())["loss"] = -1e9;
  v1::FinishResponse finished;
  EXPECT_EQ(Reason(both->Complete(Context().get(), complete, &finished)), base::reason::kLeaseLost);
  v1::HeartbeatRequest beat;
  beat.set_worker("w");
  beat.add_tokens(mine.leases(0).token());
  v1::HeartbeatResponse directives;
  ASSERT_TRUE(both->Heartbeat(Context().get(), beat, &directives).ok());
  EXPECT_EQ(directives.directives(0), v1::HeartbeatResponse::LOST);
  ASSERT_TRUE(worker->Heartbeat(Context().get(), beat, &directives).ok());
  EXPECT_EQ(directives.directives(0), v1::HeartbeatResponse::CONTINUE);
  // Nothing has changed for the holder.
  (*complete.mutable_measurement()->mutable_metrics())["loss"] = 0.5;
  const grpc::Status done = worker->Complete(Context().get(), complete, &finished);
  EXPECT_TRUE(done.ok()) << done.error_message();
  v1::GetTrialRequest get;
  get.set_name(mine.leases(0).trial().name());
  v1::Trial trial;
  ASSERT_TRUE(v1::StudyService::NewStub(Channel("user"))->GetTrial(Context().get(), get, &trial).ok());
  EXPECT_EQ(trial.attempts(0).worker(), "vision/worker/w");
}

TEST_F(PeopleTest, AsksOfAnyStudyStayWithinTheProjectAndThePool) {
  v1::CreateStudyRequest create = Study("s");
  create.mutable_spec()->mutable_objective()->mutable_builtin()->set_model("function:branin");
  create.mutable_spec()->mutable_space(0)->set_name("x1");
  auto* x2 = create.mutable_spec()->add_space();
  x2->set_name("x2");
  x2->mutable_float_()->set_min(0);
  x2->mutable_float_()->set_max(1);
  create.mutable_spec()->mutable_metric()->set_name("value");
  grpc::Status made = Create("stranger", create);
  ASSERT_TRUE(made.ok()) << made.error_message();
  create.mutable_spec()->set_pool("gpus");
  ASSERT_TRUE(Create("user", create).ok());
  const auto worker = v1::WorkerService::NewStub(Channel("worker"));
  const auto ask = [&](const std::string& pool) {
    v1::SuggestRequest request = Ask("", "w", absl::StrCat("any ", pool.size()));
    request.set_request_id(absl::StrCat("any-", pool));
    request.set_pool(pool);
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
    v1::SuggestResponse response;
    const grpc::Status status = worker->Suggest(context.get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.leases_size() == 0 ? "" : response.leases(0).trial().name();
  };
  EXPECT_EQ(ask(""), "");
  EXPECT_EQ(ask("gpus"), "projects/vision/studies/s/trials/1");
}

TEST_F(PeopleTest, AnAskOfAStudyNamesNoOtherProject) {
  ASSERT_TRUE(Create("user", Study("s")).ok());
  v1::SuggestRequest ask = Ask("projects/vision/studies/s", "w", "r1");
  ask.set_parent("projects/other");
  v1::SuggestResponse response;
  const auto worker = v1::WorkerService::NewStub(Channel("worker"));
  const grpc::Status refused = worker->Suggest(Context().get(), ask, &response);
  EXPECT_EQ(Reason(refused), base::reason::kBadField);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), "parent: ")) << refused.error_message();
  ask.set_parent("projects/vision");
  EXPECT_TRUE(worker->Suggest(Context().get(), ask, &response).ok());
}

TEST_F(PeopleTest, ListsShowOneProject) {
  ASSERT_TRUE(Create("user", Study("a")).ok());
  ASSERT_TRUE(Create("user", Study("b")).ok());
  ASSERT_TRUE(Create("stranger", Study("a")).ok());
  ASSERT_TRUE(Create("admin", Study("z")).ok());
  ASSERT_TRUE(Create("admin", Study("a0")).ok());
  const auto list = [&](const std::string& who, const std::string& project, int page) {
    const auto stub = v1::StudyService::NewStub(Channel(who));
    std::vector<std::string> names;
    v1::ListStudiesRequest request;
    request.set_page_size(page);
    if (!project.empty()) request.set_parent("projects/" + project);
    do {
      v1::ListStudiesResponse response;
      const grpc::Status status = stub->ListStudies(Context().get(), request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::Study& study : response.studies()) names.push_back(study.name());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return names;
  };
  const std::vector<std::string> vision = {"projects/vision/studies/a", "projects/vision/studies/b"};
  for (const int page : {1, 2, 100}) {
    EXPECT_EQ(list("viewer", "", page), vision);
    EXPECT_EQ(list("admin", "vision", page), vision);
    EXPECT_EQ(list("admin", "other", page), std::vector<std::string>{"projects/other/studies/a"});
    EXPECT_EQ(list("admin", "", page),
              (std::vector<std::string>{"projects/default/studies/a0", "projects/default/studies/z"}));
  }
}

TEST_F(PeopleTest, CommandsAreARight) {
  v1::CreateStudyRequest create = Study("s");
  create.mutable_spec()->mutable_objective()->mutable_command()->add_argv("/bin/true");
  EXPECT_EQ(Reason(Create("user", create)), base::reason::kRole);
  grpc::Status made = Create("commander", create);
  EXPECT_TRUE(made.ok()) << made.error_message();
  create.set_study_id("t");
  made = Create("admin", create);
  EXPECT_TRUE(made.ok()) << made.error_message();
  // Changing one is the same right.
  v1::UpdateStudyRequest update;
  update.set_name("projects/vision/studies/s");
  update.mutable_spec()->mutable_objective()->mutable_command()->add_argv("/bin/false");
  update.mutable_update_mask()->add_paths("objective.command");
  v1::Study study;
  EXPECT_EQ(Reason(v1::StudyService::NewStub(Channel("user"))->UpdateStudy(Context().get(), update, &study)),
            base::reason::kRole);
  const grpc::Status changed =
      v1::StudyService::NewStub(Channel("commander"))->UpdateStudy(Context().get(), update, &study);
  EXPECT_TRUE(changed.ok()) << changed.error_message();
}

TEST_F(PeopleTest, OnlyItsMakerOrAnAdminDeletesAStudy) {
  for (const char* id : {"s", "t"}) ASSERT_TRUE(Create("user", Study(id)).ok());
  const auto remove = [&](const std::string& who, const std::string& id) {
    v1::ControlStudyRequest request;
    request.set_name("projects/vision/studies/" + id);
    v1::DeleteStudyResponse response;
    return v1::StudyService::NewStub(Channel(who))->DeleteStudy(Context().get(), request, &response);
  };
  const grpc::Status refused = remove("commander", "s");
  EXPECT_EQ(Reason(refused), base::reason::kRole);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), "was made by \"vision/user\", not by \"vision/commander\""))
      << refused.error_message();
  EXPECT_TRUE(remove("user", "s").ok());
  EXPECT_EQ(Reason(remove("user", "s")), base::reason::kNotFound);
  EXPECT_TRUE(remove("admin", "t").ok());
}

TEST_F(PeopleTest, TheSocketOfItsOwnUserNeedsNoToken) {
  v1::ServerInfo info;
  ASSERT_TRUE(
      v1::WorkerService::NewStub(Socket())->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info).ok());
  EXPECT_EQ(info.caller(), "socket");
  EXPECT_FALSE(info.plaintext());
  ASSERT_TRUE(v1::WorkerService::NewStub(Channel("worker"))
                  ->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info)
                  .ok());
  EXPECT_EQ(info.caller(), "worker");
  EXPECT_EQ(info.project(), "vision");
  EXPECT_TRUE(info.plaintext());
}

TEST_F(PeopleTest, TokensLiveAndEnd) {
  const auto admin = v1::AdminService::NewStub(Socket());
  v1::CreateTokenRequest create;
  create.set_name("carol");
  create.set_project("vision");
  create.add_roles(v1::VIEWER);
  v1::CreateTokenResponse made, rotated;
  ASSERT_TRUE(admin->CreateToken(Context().get(), create, &made).ok());
  EXPECT_EQ(Reason(admin->CreateToken(Context().get(), create, &rotated)), base::reason::kTokenExists);
  const auto can = [&](const std::string& token) {
    v1::ListStudiesResponse studies;
    return Reason(
        v1::StudyService::NewStub(Channel(token))->ListStudies(Context().get(), v1::ListStudiesRequest(), &studies));
  };
  EXPECT_EQ(can(made.secret()), "");
  v1::RotateTokenRequest rotate;
  rotate.set_id(made.token().id());
  rotate.mutable_overlap()->set_seconds(3600);
  ASSERT_TRUE(admin->RotateToken(Context().get(), rotate, &rotated).ok());
  EXPECT_NE(rotated.secret(), made.secret());
  EXPECT_EQ(can(made.secret()), "");
  EXPECT_EQ(can(rotated.secret()), "");
  rotate.clear_overlap();
  v1::CreateTokenResponse third;
  ASSERT_TRUE(admin->RotateToken(Context().get(), rotate, &third).ok());
  EXPECT_EQ(can(made.secret()), base::reason::kBadToken);
  EXPECT_EQ(can(rotated.secret()), base::reason::kBadToken);
  EXPECT_EQ(can(third.secret()), "");
  v1::RevokeTokenRequest revoke;
  revoke.set_id(made.token().id());
  v1::Token token;
  ASSERT_TRUE(admin->RevokeToken(Context().get(), revoke, &token).ok());
  EXPECT_TRUE(token.has_revoke_time());
  EXPECT_EQ(can(third.secret()), base::reason::kRevoked);
  ASSERT_TRUE(admin->RevokeToken(Context().get(), revoke, &token).ok());
  EXPECT_EQ(Reason(admin->RotateToken(Context().get(), rotate, &third)), base::reason::kRevoked);
  // The name is free again; after a restart all of it is as it was.
  create.mutable_lifetime()->set_seconds(3600);
  ASSERT_TRUE(admin->CreateToken(Context().get(), create, &made).ok());
  server_.reset();
  Start();
  EXPECT_EQ(can(third.secret()), base::reason::kRevoked);
  EXPECT_EQ(can(made.secret()), "");
}

TEST_F(PeopleTest, AClientFollowsItsTokensFile) {
  const std::string file = dir_.Write("mine.token", tokens_["viewer"]);
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  const auto security = wire::SecurityFrom({}, file);
  ASSERT_TRUE(security.ok()) << security.status();
  const auto stub = v1::WorkerService::NewStub(wire::CreateChannel(server_->address(), *security).value());
  const auto caller = [&] {
    v1::ServerInfo info;
    EXPECT_TRUE(stub->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info).ok());
    return info.caller();
  };
  EXPECT_EQ(caller(), "viewer");
  dir_.Write("mine.token", tokens_["user"] + "\n");
  const absl::Time latest = absl::Now() + absl::Seconds(20);
  while (caller() != "user" && absl::Now() < latest) std::this_thread::yield();
  EXPECT_EQ(caller(), "user");
  unlink(file.c_str());  // What is gone changes nothing.
  EXPECT_EQ(caller(), "user");
}

TEST_F(PeopleTest, WrongWishesAreExplained) {
  const auto admin = v1::AdminService::NewStub(Socket());
  v1::CreateTokenRequest create;
  create.set_name("-");
  v1::CreateTokenResponse made;
  const absl::Status status = wire::FromGrpc(admin->CreateToken(Context().get(), create, &made));
  const auto detail = base::GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->violations.size(), 2u) << status;  // Name and roles.
  create.set_name("dan");
  create.add_roles(v1::USER);
  create.set_project("nosuch");
  EXPECT_EQ(Reason(admin->CreateToken(Context().get(), create, &made)), base::reason::kNotFound);
  create.set_project("vision");
  create.add_roles(v1::ADMIN);
  EXPECT_EQ(Reason(admin->CreateToken(Context().get(), create, &made)), base::reason::kBadField);
  create.clear_project();
  create.mutable_lifetime()->set_seconds(1);
  EXPECT_EQ(Reason(admin->CreateToken(Context().get(), create, &made)), base::reason::kBadField);
  v1::CreateProjectRequest project;
  project.set_id("default");
  v1::Project answer;
  EXPECT_EQ(Reason(admin->CreateProject(Context().get(), project, &answer)), base::reason::kProjectExists);
  project.set_id("../x");
  EXPECT_EQ(Reason(admin->CreateProject(Context().get(), project, &answer)), base::reason::kBadField);
}

TEST_F(PeopleTest, TheAuditTellsAndHoldsNoSecret) {
  ASSERT_TRUE(Create("user", Study("s")).ok());
  EXPECT_FALSE(Create("viewer", Study("t")).ok());
  const std::string wrong = "lut_0123456789abcdef_" + std::string(43, 'Q');
  EXPECT_FALSE(Create(wrong, Study("t")).ok());
  v1::ListAuditResponse audit;
  ASSERT_TRUE(
      v1::AdminService::NewStub(Channel("admin"))->ListAudit(Context().get(), v1::ListAuditRequest(), &audit).ok());
  std::vector<std::string> lines;
  for (const v1::AuditEntry& entry : audit.entries()) {
    lines.push_back(absl::StrCat(entry.name(), " ", entry.method(), " ", entry.object(), " ", entry.outcome()));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{" StudyService/CreateStudy t BAD_TOKEN",
                                             "viewer StudyService/CreateStudy projects/vision/studies/t ROLE",
                                             "user StudyService/CreateStudy projects/vision/studies/s OK"}));
  EXPECT_EQ(audit.entries(2).token(), ids_["user"]);
  server_.reset();
  for (const char* file : {"access.db", "access.db-wal", "luthier.db", "luthier.db-wal"}) {
    std::ifstream in(absl::StrCat(dir_.path(), "/", file), std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    for (const auto& [name, token] : tokens_) {
      EXPECT_FALSE(absl::StrContains(bytes.str(), token.substr(token.size() - 43)))
          << file << " has the secret of " << name;
    }
    EXPECT_FALSE(absl::StrContains(bytes.str(), std::string(43, 'Q'))) << file;
  }
}

TEST_F(PeopleTest, TheAuditNamesTheProjectOfWhatIsMade) {
  const auto made = [&](const std::string& who, const std::string& id, const std::string& parent) {
    v1::CreateStudyRequest create = Study(id);
    create.set_parent(parent);
    v1::Study study;
    return v1::StudyService::NewStub(Channel(who))->CreateStudy(Context().get(), create, &study).ok();
  };
  EXPECT_TRUE(made("several", "own", ""));
  EXPECT_TRUE(made("several", "far", "projects/speech"));
  EXPECT_TRUE(made("admin", "theirs", "projects/other"));
  EXPECT_FALSE(made("user", "stolen", "projects/other"));
  EXPECT_FALSE(made("lut_0123456789abcdef_" + std::string(43, 'Q'), "guessed", "projects/speech"));
  EXPECT_FALSE(made("user", std::string(3000, 'x'), ""));
  const auto admin = v1::AdminService::NewStub(Channel("admin"));
  const auto token = [&](const std::string& name, const std::vector<std::string>& projects) {
    v1::CreateTokenRequest create;
    create.set_name(name);
    create.add_roles(v1::USER);
    for (const std::string& project : projects) create.add_projects(project);
    v1::CreateTokenResponse answer;
    EXPECT_TRUE(admin->CreateToken(Context().get(), create, &answer).ok());
  };
  token("ci", {});
  token("ci", {"speech", "vision"});
  v1::ListAuditResponse audit;
  ASSERT_TRUE(admin->ListAudit(Context().get(), v1::ListAuditRequest(), &audit).ok());
  // Changes and refusals of about the same time come in any order.
  std::multiset<std::string> objects;
  for (const v1::AuditEntry& entry : audit.entries()) {
    objects.insert(entry.object().substr(0, 40));
    EXPECT_LE(entry.object().size(), 300u);
  }
  EXPECT_EQ(objects,
            (std::multiset<std::string>{"projects/speech/tokens/ci", "projects/default/tokens/ci",
                                        "projects/vision/studies/xxxxxxxxxxxxxxxx", "projects/speech/studies/guessed",
                                        "projects/other/studies/stolen", "projects/other/studies/theirs",
                                        "projects/speech/studies/far", "projects/vision/studies/own"}));
}

TEST_F(PeopleTest, TheFirstStartMakesAnAdmin) {
  const luthier::testing::TemporaryDirectory fresh;
  server::ServerOptions options;
  options.data_dir = fresh.path();
  options.listen = "127.0.0.1:0";
  for (int round = 0; round < 2; ++round) {  // The second start makes no other.
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    const auto token = wire::ReadTokenFile(absl::StrCat(fresh.path(), "/admin.token"));
    ASSERT_TRUE(token.ok()) << token.status();  // Also: nobody else may read it.
    const auto channel = wire::CreateChannel((*server)->address(), WithToken(*token)).value();
    v1::ListTokensResponse tokens;
    ASSERT_TRUE(v1::AdminService::NewStub(channel)->ListTokens(Context().get(), v1::ListTokensRequest(), &tokens).ok());
    EXPECT_EQ(tokens.tokens_size(), 1);
  }
}

TEST(AccessStore, TokensOfOlderProgramsStay) {
  const luthier::testing::TemporaryDirectory dir;
  const std::string path = dir.path() + "/" + AccessStore::kFile;
  TokenRecord token;
  token.id = "0123456789abcdef";
  token.name = "alice";
  token.project = "default";
  token.roles = {Role::kUser};
  token.create_time = token.expire_time = absl::UnixEpoch();
  ProjectRecord project;
  project.id = "vision";
  project.quotas.studies = 7;
  project.quotas.bytes = 1'000'000;
  {
    const auto store = AccessStore::Open(dir.path()).value();
    ASSERT_TRUE(store->Put(token).ok());
    ASSERT_TRUE(store->Put(project).ok());
    EXPECT_EQ(store->Projects().value().back().quotas, project.quotas);
  }
  {
    const auto db = storage::OpenConnection({.path = path, .vfs = "", .writer = true}).value();
    db->exec(  // As the program before bound tokens left it.
        "ALTER TABLE tokens DROP COLUMN certificate; ALTER TABLE projects DROP COLUMN bytes; DROP TABLE refusals; "
        "DROP INDEX audit_by_token; DROP TABLE requests; ALTER TABLE tokens DROP COLUMN request; "
        "ALTER TABLE tokens DROP COLUMN unclaimed; PRAGMA user_version = 2");
  }
  const auto store = AccessStore::Open(dir.path());
  ASSERT_TRUE(store.ok()) << store.status();
  project.quotas.bytes = 0;
  EXPECT_EQ((*store)->Projects().value().back().quotas, project.quotas);
  const auto tokens = (*store)->Tokens();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 1u);
  EXPECT_EQ((*tokens)[0].name, "alice");
  EXPECT_EQ((*tokens)[0].certificate, "");
}

class MetricsTest : public PeopleTest {
  void Configure(server::ServerOptions* options) override { options->metrics_listen = "127.0.0.1:0"; }
};

TEST_F(MetricsTest, CountTokensAndThoseWhoHaveNone) {
  const auto metrics = [&] { return metrics::testing::Scrape(server_->metrics_address()); };
  const auto has = [&](const std::string& line) { return absl::StrContains(metrics(), line + "\n"); };
  for (const char* who : {"", "", "expired", "revoked", "lut_", "user"}) {
    v1::ServerInfo info;
    v1::WorkerService::NewStub(Channel(who))->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info);
  }
  EXPECT_TRUE(has("luthier_auth_failures_total{reason=\"no_token\"} 2")) << metrics();
  EXPECT_TRUE(has("luthier_auth_failures_total{reason=\"expired\"} 1"));
  EXPECT_TRUE(has("luthier_auth_failures_total{reason=\"revoked\"} 1"));
  EXPECT_TRUE(has("luthier_auth_failures_total{reason=\"bad_token\"} 1"));
  // In force are viewer; user, both, commander, stranger, several, speaker; worker, both; maintainer; admin. Neither
  // expired nor revoked ones.
  EXPECT_TRUE(has("luthier_tokens{role=\"viewer\"} 1"));
  EXPECT_TRUE(has("luthier_tokens{role=\"user\"} 6"));
  EXPECT_TRUE(has("luthier_tokens{role=\"worker\"} 2"));
  EXPECT_TRUE(has("luthier_tokens{role=\"admin\"} 1"));
  v1::RevokeTokenRequest revoke;
  revoke.set_id(ids_["both"]);
  v1::Token token;
  ASSERT_TRUE(v1::AdminService::NewStub(Channel("admin"))->RevokeToken(Context().get(), revoke, &token).ok());
  EXPECT_TRUE(has("luthier_tokens{role=\"user\"} 5"));
  EXPECT_TRUE(has("luthier_tokens{role=\"worker\"} 1"));
  EXPECT_TRUE(has("luthier_insecure 0"));
  const std::string text = metrics();
  for (const auto& [name, secret] : tokens_) {
    EXPECT_FALSE(absl::StrContains(text, ids_[name]) || absl::StrContains(text, secret.substr(21))) << name;
  }
}

class OffTest : public PeopleTest {
  void Configure(server::ServerOptions* options) override { options->auth = Auth::kOff; }
};

TEST_F(OffTest, NobodyNeedsAToken) {
  EXPECT_TRUE(Create("", Study("s")).ok());
  v1::ServerInfo info;
  ASSERT_TRUE(
      v1::WorkerService::NewStub(Channel(""))->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info).ok());
  EXPECT_TRUE(info.open());
}

class RequiredTest : public PeopleTest {
  void Configure(server::ServerOptions* options) override { options->auth = Auth::kRequired; }
};

TEST_F(RequiredTest, TheSocketNeedsATokenToo) {
  v1::ServerInfo info;
  const grpc::Status status =
      v1::WorkerService::NewStub(Socket())->GetServerInfo(Context().get(), v1::GetServerInfoRequest(), &info);
  EXPECT_EQ(Reason(status), base::reason::kNoToken);
}

TEST(Auth, NeedsAPlaceForTokens) {
  server::ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.auth = Auth::kRequired;
  EXPECT_EQ(base::GetReason(server::Server::Start(options).status()), base::reason::kBadField);
  options.auth = Auth::kAuto;
  EXPECT_TRUE(server::Server::Start(options).ok());
}

}  // namespace
}  // namespace luthier::access::testing
