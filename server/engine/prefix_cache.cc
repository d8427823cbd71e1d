#include "server/engine/prefix_cache.h"

#include "base/check.h"

namespace trireme::server {

PrefixCache::PrefixCache(std::uint32_t num_blocks, std::uint32_t kv_block_tokens)
    : kv_block_tokens_(kv_block_tokens), pool_(num_blocks), blocks_(num_blocks) {
  CHECK_GT(kv_block_tokens, 0u);
}

std::uint32_t PrefixCache::num_free() const { return pool_.num_free() + static_cast<std::uint32_t>(unheld_.size()); }

PrefixCache::Key PrefixCache::MakeKey(PrefixId before, std::string_view salt, std::span<const std::uint32_t> tokens) {
  return {before, before == 0 ? std::string(salt) : std::string(), {tokens.begin(), tokens.end()}};
}

CachedPrefix PrefixCache::Find(std::string_view salt, std::span<const std::uint32_t> tokens) const {
  CachedPrefix prefix;
  for (; tokens.size() >= kv_block_tokens_; tokens = tokens.subspan(kv_block_tokens_)) {
    const auto found = entries_.find(MakeKey(prefix.id, salt, tokens.first(kv_block_tokens_)));
    if (found == entries_.end()) break;
    prefix.blocks.push_back(found->second.block);
    prefix.num_held += blocks_[found->second.block].num_holders > 0;
    prefix.id = found->second.id;
  }
  return prefix;
}

void PrefixCache::Hold(std::span<const std::uint32_t> blocks) {
  for (const std::uint32_t number : blocks) {
    Block& block = blocks_.at(number);
    CHECK(block.entry.has_value()) << "block " << number << " is not cached";
    if (block.num_holders++ == 0) unheld_.erase(block.unheld_since);
  }
}

std::vector<std::uint32_t> PrefixCache::Allocate(std::uint32_t count) {
  CHECK_LE(count, num_free());
  while (pool_.num_free() < count) ForgetOldest();
  std::vector<std::uint32_t> blocks = pool_.Allocate(count);
  for (const std::uint32_t number : blocks) blocks_[number].num_holders = 1;
  return blocks;
}

void PrefixCache::ForgetOldest() {
  const auto oldest = unheld_.begin();
  const std::uint32_t number = oldest->second;
  unheld_.erase(oldest);
  entries_.erase(*blocks_[number].entry);
  blocks_[number].entry.reset();
  pool_.Release({number});
}

void PrefixCache::Release(std::span<const std::uint32_t> blocks) {
  for (auto number = blocks.rbegin(); number != blocks.rend(); ++number) {
    Block& block = blocks_.at(*number);
    CHECK_GT(block.num_holders, 0u) << "block " << *number << " is released twice";
    if (--block.num_holders > 0) continue;
    if (block.entry.has_value()) {
      block.unheld_since = ++num_releases_;
      unheld_[block.unheld_since] = *number;
    } else {
      pool_.Release({*number});
    }
  }
}

std::vector<std::uint32_t> PrefixCache::CountLasting(std::span<const std::span<const std::uint32_t>> lists) const {
  std::vector<std::uint32_t> num_lasting, num_releases(blocks_.size());
  for (const std::span<const std::uint32_t> list : lists) {
    num_lasting.push_back(0);
    for (const std::uint32_t block : list) {
      num_lasting.back() += ++num_releases[block] < blocks_[block].num_holders;
    }
  }
  return num_lasting;
}

PrefixId PrefixCache::Register(PrefixId before, std::string_view salt, std::span<const std::uint32_t> tokens,
                               std::uint32_t block) {
  CHECK_EQ(tokens.size(), kv_block_tokens_);
  CHECK_GT(blocks_.at(block).num_holders, 0u);
  CHECK(!blocks_[block].entry.has_value()) << "block " << block << " is registered twice";
  const auto [entry, is_new] = entries_.try_emplace(MakeKey(before, salt, tokens));
  if (is_new) {
    entry->second = {.id = ++last_id_, .block = block};
    blocks_[block].entry = entry;
  }
  return entry->second.id;
}

}  // namespace trireme::server
