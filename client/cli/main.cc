#include <filesystem>

#include "client/cli/program.h"

int main(int argc, char** argv) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return luthier::cli::Main(argc, argv, self.parent_path().string());
}
