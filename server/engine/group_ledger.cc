#include "server/engine/group_ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trireme::server {

GroupLedger::GroupLedger(const GroupCapacity& capacity, std::uint32_t max_num_seqs) : generation_(capacity.generation) {
  CHECK(!capacity.num_kv_blocks.empty());
  for (const std::uint32_t num_blocks : capacity.num_kv_blocks) pools_.emplace_back(num_blocks);
  for (std::uint32_t slot = max_num_seqs; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

Place GroupLedger::Admit() {
  CHECK(!free_slots_.empty());
  Place place{.slot = free_slots_.back(), .epoch = ++last_epoch_, .blocks = {}};
  free_slots_.pop_back();
  place.blocks.resize(pools_.size());
  return place;
}

std::vector<std::vector<std::uint32_t>> GroupLedger::Extend(Place& place, std::uint32_t count) {
  std::vector<std::vector<std::uint32_t>> added;
  if (count == 0) return added;
  for (std::size_t group = 0; group < pools_.size(); ++group) {
    added.push_back(pools_[group].Allocate(count));
    place.blocks[group].insert(place.blocks[group].end(), added.back().begin(), added.back().end());
  }
  return added;
}

void GroupLedger::Release(const Place& place) {
  for (std::size_t group = 0; group < pools_.size(); ++group) pools_[group].Release(place.blocks[group]);
  free_slots_.push_back(place.slot);
  releases_.push_back(place.slot);
}

std::vector<std::uint32_t> GroupLedger::TakeReleases() { return std::exchange(releases_, {}); }

const KvBlockPool& GroupLedger::Fullest() const {
  return *std::min_element(pools_.begin(), pools_.end(),
                           [](const KvBlockPool& a, const KvBlockPool& b) { return a.num_free() < b.num_free(); });
}

std::uint32_t GroupLedger::free_blocks() const { return Fullest().num_free(); }
std::uint32_t GroupLedger::used_blocks() const { return Fullest().num_blocks() - Fullest().num_free(); }
std::uint32_t GroupLedger::total_blocks() const { return Fullest().num_blocks(); }

}  // namespace trireme::server
