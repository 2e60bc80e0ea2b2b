#ifndef LUTHIER_LIB_WIRE_DETERMINISTIC_H_
#define LUTHIER_LIB_WIRE_DETERMINISTIC_H_

namespace luthier::wire {

// Makes equal messages be sent as equal bytes from now on: maps are sent in order of their keys. For the whole process,
// before other threads send anything.
void SendMapsInOrder();

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_DETERMINISTIC_H_
