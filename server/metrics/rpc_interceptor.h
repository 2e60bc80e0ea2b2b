#ifndef LUTHIER_SERVER_METRICS_RPC_INTERCEPTOR_H_
#define LUTHIER_SERVER_METRICS_RPC_INTERCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "lib/base/clock.h"
#include "server/metrics/metrics.h"

namespace luthier::metrics {

// Counts every call of a gRPC server, also those that gRPC itself refuses. Both arguments must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CountCalls(Metrics* metrics,
                                                                                  const base::Clock* clock);

}  // namespace luthier::metrics

#endif  // LUTHIER_SERVER_METRICS_RPC_INTERCEPTOR_H_
