#ifndef LUTHIER_TESTS_TESTING_SANITIZED_H_
#define LUTHIER_TESTS_TESTING_SANITIZED_H_

namespace luthier::testing {

// True in a build with the address or the thread sanitizer: they need memory, descriptors and an allocator of their
// own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_SANITIZED_H_
