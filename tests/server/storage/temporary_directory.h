#ifndef LUTHIER_TESTS_SERVER_STORAGE_TEMPORARY_DIRECTORY_H_
#define LUTHIER_TESTS_SERVER_STORAGE_TEMPORARY_DIRECTORY_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "lib/base/check.h"

namespace luthier::testing {

// A fresh directory, removed with all it holds at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "luthier-storage-XXXXXX").string();
    LUTHIER_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_SERVER_STORAGE_TEMPORARY_DIRECTORY_H_
