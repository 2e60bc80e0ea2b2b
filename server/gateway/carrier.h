#ifndef LUTHIER_SERVER_GATEWAY_CARRIER_H_
#define LUTHIER_SERVER_GATEWAY_CARRIER_H_

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <utility>  // Boost 1.74's asio needs it, and does not say so.

#include "lib/base/mutex.h"
#include "server/service/calls.h"

namespace luthier::gateway {

// Counts the calls that have not ended, so that the end can wait for them.
class OpenStreams {
 public:
  void Add();
  void Remove();
  void WaitForNone();

 private:
  base::Mutex mutex_;
  base::CondVar none_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The form of a call's answers.
struct Form {
  bool json = true;     // False: binary.
  std::string zip_for;  // Address of a caller who accepts gzip; empty: answers are not compressed.
};

// An answer as it is sent.
struct Text {
  std::string bytes = "";
  bool zipped = false;
};

// Brings what comes of one call to the gateway's thread. Answers are made into text, and compressed, where they come
// from. It deletes itself.
class Carrier final : public service::Responder {
 public:
  using Executor = boost::asio::io_context::executor_type;
  using Written = std::function<void(bool)>;

  Carrier(Executor executor, OpenStreams* streams, Form form);
  // Sets who hears of messages, of the end, with the answer of a call without a stream, and that the reader is too
  // slow.
  void Tell(std::function<void(std::string, Written)> message, std::function<void(const absl::Status&, Text)> end,
            std::function<void()> abort);

  void Finish(const absl::Status& status, const google::protobuf::Message& reply) override;
  void Write(const google::protobuf::Message& message, Written written) override;
  void Abort() override;

 private:
  const Executor executor_;
  OpenStreams* const streams_;
  const Form form_;
  std::function<void(std::string, Written)> message_;
  std::function<void(const absl::Status&, Text)> end_;
  std::function<void()> abort_;
};

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_CARRIER_H_
