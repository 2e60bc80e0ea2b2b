// Random changes of tokens, steps of the clock and restarts, against a naive twin that looks at everything each time:
// after every step each secret that was ever told must be admitted or refused as the twin says, and exactly those
// streams have ended whose secret was not in force at some step since they began.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "server/access/registry.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::access::testing {
namespace {

namespace reason = base::reason;

constexpr absl::Duration kDay = absl::Hours(24);

// A token as the twin has it. Its secrets are numbered in order; the newest has the largest number.
struct Token {
  std::string id, name;
  bool revoked = false;
  absl::Time expire, overlap_end = absl::InfinitePast();
  absl::Duration lifetime;
  size_t newest = 0;
  std::optional<size_t> previous;
  bool used = false;    // The newest secret.
  std::string request;  // Made the newest secret.

  bool in_force(absl::Time now) const { return !revoked && now < expire; }
};

struct Secret {
  size_t token = 0;
  std::string text;
};

struct Request {
  std::string content;
  size_t token = 0;
  absl::Duration told_until;
};

struct Stream {
  size_t secret = 0;
  std::string expected;                // Why it has ended; "": it goes on.
  std::shared_ptr<std::string> ended;  // What it was told.
  Registry::Ending ending;
};

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed, "access walk") { Restart(); }

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(absl::StrCat("step ", i));
      Step();
      Check();
    }
  }
  int64_t ended() const { return ended_; }
  int64_t repeated() const { return repeated_; }
  int64_t told_anew() const { return told_anew_; }

 private:
  size_t Pick(size_t count) { return static_cast<size_t>(random_.UniformInt(count)); }
  absl::Time now() const { return clock_.Wall(); }

  void Restart() {
    streams_.clear();
    registry_.reset();
    registry_ = Registry::Open(dir_.path(), &clock_).value();
    for (auto& [id, request] : requests_) request.told_until = absl::ZeroDuration();
  }

  void Step() {
    switch (Pick(10)) {
      case 0:
      case 1:
        return Create();
      case 2:
        return Rotate();
      case 3:
        return Pick(3) == 0 ? Revoke() : Use();
      case 4:
      case 5:
      case 6:
        return Open();
      case 7:
        clock_.Advance(Pick(2) == 0 ? absl::Seconds(20) : absl::Minutes(Pick(180)));
        return;
      case 8:
        return Pick(2) == 0 ? StepClock() : Use();
      default:
        if (Pick(3) == 0) Restart();
    }
  }

  // The wall clock is off by so much from now on.
  void StepClock() {
    const absl::Duration steps[] = {absl::ZeroDuration(), absl::Seconds(1), 3 * kDay, 20 * 365 * kDay};
    const absl::Duration off = (Pick(2) == 0 ? 1 : -1) * steps[Pick(4)];
    clock_.JumpWall(off - off_);
    off_ = off;
  }

  std::string RequestId() { return Pick(3) == 0 ? "" : absl::StrCat("r", Pick(12)); }

  // True if the request was made before, with what it must be answered.
  bool Repeated(const std::string& id, const std::string& content, std::string* why, std::optional<size_t>* same,
                bool* anew) {
    const auto found = requests_.find(id);
    if (id.empty() || found == requests_.end()) return false;
    ++repeated_;
    const Request& request = found->second;
    Token& token = tokens_[request.token];
    if (request.content != content) {
      *why = reason::kRequestIdReused;
    } else if (token.revoked) {
      *why = reason::kRevoked;
    } else if (token.request == id && clock_.Monotonic() < request.told_until) {
      *same = token.newest;
    } else if (token.request == id && !token.used) {
      *anew = true;
    } else {
      *why = reason::kTokenExists;
    }
    return true;
  }

  using Answer = absl::StatusOr<std::pair<TokenRecord, std::string>>;

  // Compares the answer to a request that was made before.
  void Compare(const Answer& answer, const std::string& id, const std::string& why, std::optional<size_t> same,
               bool anew) {
    ASSERT_EQ(base::GetReason(answer.status()), why) << answer.status();
    if (!answer.ok()) return;
    Request& request = requests_[id];
    EXPECT_EQ(answer->first.id, tokens_[request.token].id);
    if (same) {
      EXPECT_EQ(answer->second, secrets_[*same].text);
    }
    if (anew) NewSecret(request.token, answer->second, id);
  }

  void NewSecret(size_t token, const std::string& text, const std::string& request) {
    for (const Secret& secret : secrets_) EXPECT_NE(secret.text, text);
    secrets_.push_back({token, text});
    tokens_[token].newest = secrets_.size() - 1;
    tokens_[token].used = false;
    tokens_[token].request = request;
    if (!request.empty()) requests_[request].told_until = clock_.Monotonic() + absl::Minutes(10);
    told_anew_ += request.empty() ? 0 : 1;
  }

  void Create() {
    TokenRecord wanted;
    wanted.name = absl::StrCat("n", Pick(20));
    wanted.roles = {Role::kUser};
    const absl::Duration lifetimes[] = {absl::Minutes(1), absl::Hours(2), 5 * kDay, 30 * 365 * kDay / 10};
    wanted.lifetime = lifetimes[Pick(4)];
    const std::string id = RequestId(),
                      content = absl::StrCat("create ", wanted.name, absl::FormatDuration(wanted.lifetime));
    std::string why;
    std::optional<size_t> same;
    bool anew = false;
    const bool repeated = Repeated(id, content, &why, &same, &anew);
    const Answer answer = registry_->CreateToken(wanted, {nullptr, id});
    if (repeated) return Compare(answer, id, why, same, anew);
    const bool taken = std::any_of(tokens_.begin(), tokens_.end(), [&](const Token& token) {
      return token.name == wanted.name && token.in_force(now());
    });
    ASSERT_EQ(base::GetReason(answer.status()), taken ? reason::kTokenExists : "") << answer.status();
    if (!answer.ok()) return;
    Token token;
    token.id = answer->first.id;
    token.name = wanted.name;
    token.expire = now() + wanted.lifetime;
    token.lifetime = wanted.lifetime;
    tokens_.push_back(token);
    if (!id.empty()) requests_[id] = {content, tokens_.size() - 1, {}};
    NewSecret(tokens_.size() - 1, answer->second, id);
  }

  void Rotate() {
    if (tokens_.empty()) return;
    const size_t index = Pick(tokens_.size());
    Token& token = tokens_[index];
    const absl::Duration overlaps[] = {absl::ZeroDuration(), absl::Minutes(5), 2 * kDay};
    const absl::Duration overlap = overlaps[Pick(3)], lifetime = Pick(2) == 0 ? absl::ZeroDuration() : absl::Hours(1);
    const std::string id = RequestId(), content = absl::StrCat("rotate ", token.id, absl::FormatDuration(overlap), " ",
                                                               absl::FormatDuration(lifetime));
    std::string why;
    std::optional<size_t> same;
    bool anew = false;
    const bool repeated = Repeated(id, content, &why, &same, &anew);
    const Answer answer = registry_->RotateToken(token.id, overlap, lifetime, {nullptr, id});
    if (repeated) return Compare(answer, id, why, same, anew);
    ASSERT_EQ(base::GetReason(answer.status()), token.revoked ? reason::kRevoked : "") << answer.status();
    if (!answer.ok()) return;
    token.previous = std::nullopt;
    token.overlap_end = absl::InfinitePast();
    if (token.in_force(now()) && overlap > absl::ZeroDuration()) {
      token.previous = token.newest;
      token.overlap_end = std::min(now() + overlap, token.expire);
    }
    if (lifetime != absl::ZeroDuration()) token.lifetime = lifetime;
    token.expire = now() + token.lifetime;
    if (!id.empty()) requests_[id] = {content, index, {}};
    NewSecret(index, answer->second, id);
  }

  void Revoke() {
    if (tokens_.empty()) return;
    Token& token = tokens_[Pick(tokens_.size())];
    ASSERT_TRUE(registry_->RevokeToken(token.id).ok());
    token.revoked = true;
  }

  absl::StatusOr<Holder> HolderOf(const std::string& text) {
    return registry_->HolderOf(absl::StrCat("Bearer ", text), [] { return std::string(); });
  }

  // A call by some secret.
  void Use() {
    if (secrets_.empty()) return;
    const size_t secret = Pick(secrets_.size());
    const absl::StatusOr<Holder> holder = HolderOf(secrets_[secret].text);
    if (!holder.ok()) return;
    Token& token = tokens_[secrets_[secret].token];
    EXPECT_EQ(holder->first_use, token.newest == secret && !token.used);
    registry_->NoteCall(*holder);
    if (token.newest == secret) token.used = true;
  }

  void Open() {
    if (secrets_.empty()) return;
    const size_t secret = Pick(2) == 0 ? Pick(secrets_.size()) : tokens_[secrets_.back().token].newest;
    const absl::StatusOr<Holder> holder = HolderOf(secrets_[secret].text);
    if (!holder.ok()) return;
    Stream stream;
    stream.secret = secret;
    stream.ended = std::make_shared<std::string>();
    stream.ending = registry_->OnEnd(holder->standing, [this, ended = stream.ended](const absl::Status& why) {
      base::MutexLock lock(&mutex_);
      EXPECT_EQ(*ended, "") << "it was told twice";
      *ended = base::GetReason(why);
    });
    streams_.push_back(std::move(stream));
    if (streams_.size() > 40) streams_.erase(streams_.begin());
  }

  // Why the secret is refused; "": it is not.
  std::string Refusal(size_t secret) const {
    const Token& token = tokens_[secrets_[secret].token];
    const bool newest = token.newest == secret;
    if (!newest && token.previous != secret) return reason::kBadToken;
    if (token.revoked) return reason::kRevoked;
    return now() < token.expire && (newest || now() < token.overlap_end) ? "" : reason::kExpired;
  }

  void Check() {
    registry_->EndExpired();
    for (size_t i = 0; i < secrets_.size(); ++i) {
      EXPECT_EQ(base::GetReason(HolderOf(secrets_[i].text).status()), Refusal(i)) << "secret " << i;
    }
    base::MutexLock lock(&mutex_);
    for (Stream& stream : streams_) {
      if (stream.expected.empty()) {
        stream.expected = Refusal(stream.secret);
        // A secret that nobody knows any more was replaced, unless its token was revoked before.
        if (stream.expected == reason::kBadToken) stream.expected = reason::kExpired;
        if (!stream.expected.empty()) ++ended_;
      }
      EXPECT_EQ(*stream.ended, stream.expected) << "stream of secret " << stream.secret;
    }
  }

  base::RandomStream random_;
  luthier::testing::TemporaryDirectory dir_;
  base::ManualClock clock_;
  absl::Duration off_ = absl::ZeroDuration();
  std::unique_ptr<Registry> registry_;
  std::vector<Token> tokens_;
  std::vector<Secret> secrets_;
  std::map<std::string, Request> requests_;
  base::Mutex mutex_;  // A stream may be told by the thread that looks at the clock.
  std::vector<Stream> streams_;
  int64_t ended_ = 0, repeated_ = 0, told_anew_ = 0;
};

TEST(RandomAccess, AnswersAsTheNaiveTwin) {
  int64_t ended = 0, repeated = 0, told_anew = 0;
  for (uint64_t seed = 1; seed <= 20 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Walk walk(seed);
    walk.Run(400);
    ended += walk.ended();
    repeated += walk.repeated();
    told_anew += walk.told_anew();
  }
  std::printf("%lld streams ended, %lld requests repeated\n", static_cast<long long>(ended),
              static_cast<long long>(repeated));
  // A walk that never gets anywhere proves nothing.
  EXPECT_GT(ended, 300);
  EXPECT_GT(repeated, 300);
  EXPECT_GT(told_anew, 100);
}

}  // namespace
}  // namespace luthier::access::testing
