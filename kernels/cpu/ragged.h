// Walks the pieces of a ragged batch, sequence after sequence, without a table of where each begins.
#pragma once
#include <cstdint>
#include <span>

#include "kernels/kv_cache.h"

namespace trireme::kernels::cpu {

// `pieces_of(sequence)` says how many pieces a sequence has. Pieces are numbered through the batch.
template <typename PiecesOf>
std::int64_t CountPieces(std::span<const SequenceRows> sequences, const PiecesOf& pieces_of) {
  std::int64_t count = 0;
  for (const SequenceRows& sequence : sequences) count += pieces_of(sequence);
  return count;
}

// Finds the pieces of numbers that never fall, as one thread of a loop meets them.
template <typename PiecesOf>
class RaggedCursor {
 public:
  RaggedCursor(std::span<const SequenceRows> sequences, const PiecesOf& pieces_of)
      : next_(sequences.data()), pieces_of_(pieces_of) {}

  struct Place {
    const SequenceRows& sequence;
    std::int64_t index;  // of the piece within the sequence
  };

  // REQUIRES: number < CountPieces(…), and no less than at the call before.
  Place Find(std::int64_t number) {
    for (std::int64_t count; number - begin_ >= (count = pieces_of_(*next_)); ++next_) begin_ += count;
    return {*next_, number - begin_};
  }

 private:
  const SequenceRows* next_;
  const PiecesOf& pieces_of_;
  std::int64_t begin_ = 0;  // the number of next_'s first piece
};

}  // namespace trireme::kernels::cpu
