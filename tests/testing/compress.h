#ifndef LUTHIER_TESTS_TESTING_COMPRESS_H_
#define LUTHIER_TESTS_TESTING_COMPRESS_H_

#include <lzma.h>
#include <zlib.h>

#include <string>

#include "lib/base/check.h"

namespace luthier::testing {

// One gzip member.
inline std::string Gzip(const std::string& text) {
  z_stream s = {};
  LUTHIER_CHECK(deflateInit2(&s, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&s, text.size()) + 64, '\0');
  s.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  s.avail_in = static_cast<uInt>(text.size());
  s.next_out = reinterpret_cast<Bytef*>(out.data());
  s.avail_out = static_cast<uInt>(out.size());
  LUTHIER_CHECK(deflate(&s, Z_FINISH) == Z_STREAM_END);
  out.resize(s.total_out);
  deflateEnd(&s);
  return out;
}

// One xz stream.
inline std::string Xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  LUTHIER_CHECK(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                                        text.size(), reinterpret_cast<uint8_t*>(out.data()), &size,
                                        out.size()) == LZMA_OK);
  out.resize(size);
  return out;
}

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_COMPRESS_H_
