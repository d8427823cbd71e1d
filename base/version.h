// Which Trireme this is.
#pragma once
#include <string_view>

namespace trireme {

// "0.1.0".
std::string_view Version();

// "0.1.0+<commit>": equal in two programs that were built from the same commit. Server and workers compare it,
// since the control stream is not kept compatible between builds.
std::string_view BuildId();

}  // namespace trireme
