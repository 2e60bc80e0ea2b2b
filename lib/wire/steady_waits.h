#ifndef LUTHIER_LIB_WIRE_STEADY_WAITS_H_
#define LUTHIER_LIB_WIRE_STEADY_WAITS_H_

namespace luthier::wire {

// From now on the timed waits of Abseil, and so gRPC's timers, go by the monotonic clock. Abseil of 2022 waits for a
// moment of the wall clock: set back by a day, the clock would let gRPC 1.51 wait that day longer for all its timers,
// so that a worker would not connect again to a coordinator that was restarted, and no deadline of a call would come.
//
// For programs: it takes the place of libc's syscall() in the whole process, so a library must leave it to its users.
void KeepWaitsSteady();

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_STEADY_WAITS_H_
