#ifndef LUTHIER_WORKER_PROGRAM_H_
#define LUTHIER_WORKER_PROGRAM_H_

namespace luthier::worker {

// Runs the program luthier-worker, with the arguments of main. Returns the exit code.
int Main(int argc, char** argv);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROGRAM_H_
