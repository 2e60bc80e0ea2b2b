#include "server/gateway/carrier.h"

#include <boost/asio/post.hpp>

#include "absl/status/statusor.h"
#include "server/gateway/compression.h"
#include "server/gateway/connect.h"
#include "server/gateway/rules.h"

namespace luthier::gateway {

namespace asio = boost::asio;

void OpenStreams::Add() {
  const base::MutexLock lock(&mutex_);
  ++open_;
}

void OpenStreams::Remove() {
  const base::MutexLock lock(&mutex_);
  if (--open_ == 0) none_.SignalAll();
}

void OpenStreams::WaitForNone() {
  const base::MutexLock lock(&mutex_);
  while (open_ > 0) none_.Wait(&mutex_);
}

Carrier::Carrier(Executor executor, OpenStreams* streams, Form form)
    : executor_(std::move(executor)), streams_(streams), form_(std::move(form)) {
  streams_->Add();
}

void Carrier::Tell(std::function<void(std::string, Written)> message,
                   std::function<void(const absl::Status&, Text)> end, std::function<void()> abort) {
  message_ = std::move(message);
  end_ = std::move(end);
  abort_ = std::move(abort);
}

void Carrier::Finish(const absl::Status& status, const google::protobuf::Message& reply) {
  absl::Status outcome = status;
  Text text;
  if (outcome.ok()) {
    absl::StatusOr<std::string> made = ToText(reply, form_.json);
    outcome = made.status();
    if (made.ok()) text.bytes = *std::move(made);
  }
  if (!form_.zip_for.empty() && WorthCompressing(form_.zip_for, text.bytes.size())) {
    text = {Gzip(text.bytes, /*level=*/1), true};
  }
  asio::post(executor_, [this, outcome = std::move(outcome), text = std::move(text)]() mutable {
    end_(outcome, std::move(text));
    OpenStreams* const streams = streams_;
    delete this;
    streams->Remove();
  });
}

void Carrier::Write(const google::protobuf::Message& message, Written written) {
  absl::StatusOr<std::string> text = ToText(message, form_.json);
  asio::post(executor_, [this, text = std::move(text), written = std::move(written)]() mutable {
    if (!text.ok()) return written(false);
    message_(*std::move(text), std::move(written));
  });
}

void Carrier::Abort() {
  asio::post(executor_, abort_);
}

}  // namespace luthier::gateway
