#include "worker/program.h"

int main(int argc, char** argv) {
  return luthier::worker::Main(argc, argv);
}
