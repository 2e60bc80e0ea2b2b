#include "server/gateway/compression.h"

#include <zlib.h>

#include "lib/base/check.h"

namespace luthier::gateway {

std::string Gzip(absl::string_view text, int level) {
  constexpr int kWindow = 15 + 16;  // The largest window, and gzip's head instead of zlib's.
  constexpr int kMemory = 8;
  z_stream stream = {};
  LUTHIER_CHECK(deflateInit2(&stream, level, Z_DEFLATED, kWindow, kMemory, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  LUTHIER_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace luthier::gateway
