// luthier, luthierd and luthier-worker in one file: the name that it is called by decides. They share nearly all of
// their code, so that one file of them is a third of three.
#include <sys/prctl.h>

#include <cstdio>
#include <filesystem>

#include "client/cli/program.h"
#include "lib/base/processor.h"
#include "server/program.h"
#include "worker/program.h"

int main(int argc, char** argv) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  // Tools that list processes show this name instead of the file's.
  if (name.rfind("luthier", 0) == 0) prctl(PR_SET_NAME, name.c_str());
  if (name == "luthierd") return luthier::server::Main(argc, argv);
  if (name == "luthier-worker") return luthier::worker::Main(argc, argv);
  if (name == "luthier") {
    // The launchers lie above the folder of this file.
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    return luthier::cli::Main(argc, argv, self.parent_path().parent_path().string());
  }
  // For tools/build_wheel.sh: the level that this file was compiled for.
  std::puts(luthier::base::ProcessorLevel(luthier::base::kProcessorNeeds));
  return 0;
}
