// Tells whether files have changed, without reading them.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::server {

// Device, inode, size, and times of the last change of content and of anything, in nanoseconds; zeros for a file that
// is not there. Links are followed, so a link that is switched to another file counts as a change (Kubernetes replaces
// mounted secrets so).
using FileStamp = std::array<std::int64_t, 5>;

std::vector<FileStamp> StampsOf(const std::vector<std::string>& files);

}  // namespace trireme::server
