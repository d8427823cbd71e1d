#include "server/engine/group_ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace trireme::server {
namespace {

std::uint32_t LeastOf(const std::vector<std::uint32_t>& num_kv_blocks) {
  CHECK(!num_kv_blocks.empty());
  return *std::min_element(num_kv_blocks.begin(), num_kv_blocks.end());
}

}  // namespace

GroupLedger::GroupLedger(const GroupCapacity& capacity, const LedgerOptions& options)
    : options_(options),
      generation_(capacity.generation),
      num_kv_groups_(capacity.num_kv_blocks.size()),
      cache_(LeastOf(capacity.num_kv_blocks), options.kv_block_tokens) {
  for (std::uint32_t slot = options.max_num_seqs; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

CachedPrefix GroupLedger::Find(std::string_view salt, std::span<const std::uint32_t> findable) const {
  return options_.prefix_caching ? cache_.Find(salt, findable) : CachedPrefix();
}

Place GroupLedger::Admit(std::string_view salt, std::span<const std::uint32_t> findable) {
  CHECK(!free_slots_.empty());
  CachedPrefix prefix = Find(salt, findable);
  cache_.Hold(prefix.blocks);
  Place place{.slot = free_slots_.back(), .epoch = ++last_epoch_, .blocks = std::move(prefix.blocks)};
  free_slots_.pop_back();
  place.num_registered = place.num_blocks();
  place.registered = prefix.id;
  return place;
}

std::vector<std::vector<std::uint32_t>> GroupLedger::Extend(Place& place, std::uint32_t count) {
  const std::vector<std::uint32_t> added = cache_.Allocate(count);
  place.blocks.insert(place.blocks.end(), added.begin(), added.end());
  const std::uint32_t told = std::exchange(place.num_told, place.num_blocks());
  if (told == place.num_told) return {};
  return {num_kv_groups_, std::vector<std::uint32_t>(place.blocks.begin() + told, place.blocks.end())};
}

void GroupLedger::Register(Place& place, std::string_view salt, std::span<const std::uint32_t> tokens) {
  if (!options_.prefix_caching) return;
  const std::size_t size = options_.kv_block_tokens;
  for (; (place.num_registered + 1) * size <= tokens.size(); ++place.num_registered) {
    place.registered = cache_.Register(place.registered, salt, tokens.subspan(place.num_registered * size, size),
                                       place.blocks[place.num_registered]);
  }
}

void GroupLedger::Release(const Place& place) {
  cache_.Release(place.blocks);
  free_slots_.push_back(place.slot);
  releases_.push_back(place.slot);
}

std::vector<std::uint32_t> GroupLedger::CountLasting(std::span<const Place* const> places) const {
  std::vector<std::span<const std::uint32_t>> lists;
  for (const Place* const place : places) lists.emplace_back(place->blocks);
  return cache_.CountLasting(lists);
}

std::vector<std::uint32_t> GroupLedger::TakeReleases() { return std::exchange(releases_, {}); }

}  // namespace trireme::server
