#include "sharding/checkpoint/tensor_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/dequantize.h"
#include "sharding/checkpoint/float_formats.h"

namespace trireme::sharding {
namespace {

class RunReader {
 public:
  RunReader(const ByteSource& file, const TensorInfo& tensor, DType as, void* out)
      : file_(file), tensor_(tensor), traits_(TraitsOf(tensor.dtype)), as_(as), out_(out) {}

  absl::Status Read(std::span<const ElementRun> runs) {
    for (const ElementRun& run : runs) RETURN_IF_ERROR(Add(run));
    return Flush();
  }

 private:
  // Extends the window by the run's blocks, as far as it can; what is too much goes into windows of its own.
  absl::Status Add(ElementRun run) {
    const std::int64_t max_blocks = kMaxReadBytes / traits_.block_bytes;
    while (run.count > 0) {
      const std::int64_t first_block = run.in_file / traits_.block_elements;
      const bool is_neighbour = first_block <= window_.end;
      if (!is_neighbour || first_block - window_.begin >= max_blocks) RETURN_IF_ERROR(Flush());
      if (window_.empty()) window_ = {first_block, first_block};
      const std::int64_t most = (window_.begin + max_blocks) * traits_.block_elements - run.in_file;
      const ElementRun part{run.in_file, run.in_slice, std::min(run.count, most)};
      window_.end = std::max(window_.end, EndBlock(part));
      pending_.push_back(part);
      run = {run.in_file + part.count, run.in_slice + part.count, run.count - part.count};
    }
    return absl::OkStatus();
  }

  std::int64_t EndBlock(const ElementRun& run) const {
    return (run.in_file + run.count + traits_.block_elements - 1) / traits_.block_elements;
  }

  absl::Status Flush() {
    bytes_.resize(static_cast<std::size_t>(window_.size() * traits_.block_bytes));
    RETURN_IF_ERROR(file_.ReadAt(tensor_.byte_offset + window_.begin * traits_.block_bytes, bytes_));
    for (const ElementRun& run : pending_) Convert(run);
    pending_.clear();
    window_ = {};
    return absl::OkStatus();
  }

  const std::byte* BlockAt(std::int64_t block) const {
    return bytes_.data() + (block - window_.begin) * traits_.block_bytes;
  }

  void Convert(const ElementRun& run) {
    const std::int64_t element_bytes = traits_.block_bytes;
    if (tensor_.dtype == as_) {
      std::memcpy(static_cast<std::byte*>(out_) + run.in_slice * element_bytes, BlockAt(run.in_file),
                  static_cast<std::size_t>(run.count * element_bytes));
      return;
    }
    // Through a buffer that fits the first-level cache, since runs need not begin or end on a block's edge.
    constexpr std::int64_t kBufferElements = 2048;
    std::array<float, kBufferElements> values;
    const std::int64_t end = run.in_file + run.count;
    for (std::int64_t at = run.in_file; at < end;) {
      const std::int64_t block = at / traits_.block_elements;
      const std::int64_t begin_element = block * traits_.block_elements;
      const std::int64_t stop = std::min(end, begin_element + kBufferElements);
      const std::int64_t num_blocks = (stop - begin_element + traits_.block_elements - 1) / traits_.block_elements;
      Dequantize(tensor_.dtype, BlockAt(block), num_blocks, values.data());
      Store(values.data() + (at - begin_element), stop - at, run.in_slice + (at - run.in_file));
      at = stop;
    }
  }

  void Store(const float* values, std::int64_t count, std::int64_t in_slice) {
    if (as_ == DType::kF32) {
      std::memcpy(static_cast<float*>(out_) + in_slice, values, static_cast<std::size_t>(count) * sizeof(float));
    } else {
      std::transform(values, values + count, static_cast<std::uint16_t*>(out_) + in_slice, FloatToBFloat16);
    }
  }

  const ByteSource& file_;
  const TensorInfo& tensor_;
  const DTypeTraits& traits_;
  const DType as_;
  void* const out_;
  Interval window_;                  // blocks that will be read at once
  std::vector<ElementRun> pending_;  // what is wanted of them
  std::vector<std::byte> bytes_;
};

}  // namespace

absl::Status ReadRuns(const ByteSource& file, const TensorInfo& tensor, std::span<const ElementRun> runs, DType as,
                      void* out) {
  CHECK(IsReadable(tensor.dtype)) << " " << TraitsOf(tensor.dtype).name;
  CHECK(as == DType::kF32 || as == DType::kBF16) << " " << TraitsOf(as).name;
  return RunReader(file, tensor, as, out).Read(runs);
}

}  // namespace trireme::sharding
