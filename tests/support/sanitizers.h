// How a build with sanitizers differs for a test that measures. Link trireme_sanitizers.
#pragma once

namespace trireme::test_support {

// Bounds on time are multiplied by this: 1 without sanitizers, and what CMake's TRIREME_SLOWDOWN says with them.
inline constexpr int kSlowdown = TRIREME_SLOWDOWN;

// Freed memory stays with AddressSanitizer for a while, so a process' size says little of what it holds. What it
// forgot to free is reported when it ends.
inline constexpr bool kIsSanitized = kSlowdown > 1;

}  // namespace trireme::test_support
