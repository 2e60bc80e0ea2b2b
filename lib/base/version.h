#ifndef LUTHIER_LIB_BASE_VERSION_H_
#define LUTHIER_LIB_BASE_VERSION_H_

#include <string>

namespace luthier::base {

// The version of the whole project: CMake, packages and wheels read it here. CHANGELOG.md has a section of this name.
inline constexpr char kVersion[] = "0.2.0";

// Returns the commit that the program was made from, as git names it, with "-dirty" if files differed from it. Returns
// "unknown" if neither git nor the archive of the sources tells (cmake/LuthierVersion.cmake), and in programs of
// others.
const char* BuildCommit();

// Returns the instructions that the program was compiled for: "x86-64-v3", "x86-64-v2", "x86-64", "aarch64", "other".
// Suggestions are repeated bit for bit within one of them.
const char* BuildLevel();

// Returns what `--version` says after the program's name: "0.2.0 (0123456789ab, x86-64-v3)".
std::string VersionText();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_VERSION_H_
