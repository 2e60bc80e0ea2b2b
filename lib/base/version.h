#ifndef LUTHIER_LIB_BASE_VERSION_H_
#define LUTHIER_LIB_BASE_VERSION_H_

namespace luthier::base {

// As in CMakeLists.txt and CHANGELOG.md.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_VERSION_H_
