#ifndef LUTHIER_SERVER_PROGRAM_H_
#define LUTHIER_SERVER_PROGRAM_H_

namespace luthier::server {

// Runs the program luthierd, the coordinator, with the arguments of main. Returns the exit code.
int Main(int argc, char** argv);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_PROGRAM_H_
