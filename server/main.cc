#include "server/program.h"

int main(int argc, char** argv) {
  return luthier::server::Main(argc, argv);
}
