#ifndef LUTHIER_LIB_WIRE_DETERMINISTIC_H_
#define LUTHIER_LIB_WIRE_DETERMINISTIC_H_

namespace luthier::wire {

// From now on equal messages are sent as equal bytes: their maps in order of the keys, and not as it comes. For the
// whole process, before other threads send anything.
void SendMapsInOrder();

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_DETERMINISTIC_H_
