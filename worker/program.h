#ifndef LUTHIER_WORKER_PROGRAM_H_
#define LUTHIER_WORKER_PROGRAM_H_

namespace luthier::worker {

// The program luthier-worker. Takes what main takes, and returns the exit code.
int Main(int argc, char** argv);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROGRAM_H_
