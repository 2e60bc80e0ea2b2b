#ifndef LUTHIER_SERVER_PROGRAM_H_
#define LUTHIER_SERVER_PROGRAM_H_

namespace luthier::server {

// The program luthierd, the coordinator. Takes what main takes, and returns the exit code.
int Main(int argc, char** argv);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_PROGRAM_H_
