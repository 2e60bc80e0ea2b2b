#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_SIZE_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_SIZE_H_

#include <cstddef>
#include <map>
#include <string>

#include "server/coordinator/messages/operations.h"

// Estimates of how much room messages take.
namespace luthier::coordinator {

// Estimates the memory that the content of an operation takes.
size_t BytesOf(const Operation& operation);

// Returns an upper bound on the bytes of a spec in a message.
size_t BytesOf(const study::StudySpec& spec);

// Bytes of a granted trial in a message, its study's spec included.
size_t BytesOf(const Grant& grant);

// Bytes that a new trial of this setting takes in a message: never fewer than it takes.
size_t BytesOf(const study::Parameters& setting, const std::map<std::string, std::string>& attributes);

// Bytes that a trial's row takes, and a point of its curve.
size_t BytesOf(const study::Trial& trial);
size_t BytesOf(const study::Measurement& point);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_SIZE_H_
